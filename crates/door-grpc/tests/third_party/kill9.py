"""The broker is killed with kill -9 under a worker, a watcher and a subscriber, and started again."""

import json
import os
import socket
import subprocess
import sys
import time

import grpc
from common import TIMEOUT, Broker, Worker, attempt, pb, sidecar_pb, until
from grpc import StatusCode

binary, data = sys.argv[1:]
with socket.socket() as free:
    free.bind(("127.0.0.1", 0))
    address = "127.0.0.1:%d" % free.getsockname()[1]


class Program:
    def __init__(self):
        environment = {**os.environ, **{f"TENURE_{door}": "off" for door in ["XMESSAGE", "RESP", "MDP", "PINGPONG", "HTTP"]}}
        self.process = subprocess.Popen(
            [binary, "serve", "--data-dir", f"{data}/broker", "--native", "off", "--grpc", address]
            + ["--durable-topics", "audit.>", "--print-addresses", "json", "--log", "error"],
            env=environment,
            stdout=subprocess.PIPE,
        )
        assert json.loads(self.process.stdout.readline())["doors"]["grpc"] == address

    def kill(self):
        self.process.kill()
        self.process.wait()


def broken(stream):
    """The stream breaks, as it does when the other side is gone."""
    try:
        for _ in stream:
            pass
    except grpc.RpcError as error:
        assert error.code() == StatusCode.UNAVAILABLE, error
    else:
        raise AssertionError("the stream ended as if nothing had happened")


def event(stream):
    for heard in stream:
        kind = heard.WhichOneof("event")
        if kind != "heartbeat":
            return kind, getattr(heard, kind)
    raise AssertionError("the stream is over")


program = Program()
try:
    broker = Broker(address)
    worker = Worker(broker)
    worker.register("w1", "images", slots=2, instance=7)
    watch = broker.tasks.Watch(pb.WatchRequest(**{"from": 1}, queue="images"))
    one, two = broker.submit("images", b"one", b"two")
    running = [worker.assignment(), worker.assignment()]
    worker.ask(start=pb.Start(held=[attempt(held) for held in running]))
    seen = []
    while [kind for _, kind in seen].count("started") < 2:
        news = next(watch)
        if news.WhichOneof("news") == "event":
            seen.append((news.event.seq, news.event.kind))

    subscribed = broker.sidecar.Subscribe(sidecar_pb.SubscribeRequest(topics=["news"], subscription_id="mine"))
    assert event(subscribed)[0] == "subscription_info"
    for number in range(1, 6):
        assert broker.publish("news", b"%d" % number).sequence_number == number
    assert [event(subscribed)[1].sequence_number for _ in range(5)] == [1, 2, 3, 4, 5]
    # Another subscriber that keeps no numbers.
    counted = broker.sidecar.Subscribe(sidecar_pb.SubscribeRequest(topics=["news"], subscription_id="uncounted"))
    assert event(counted)[0] == "subscription_info"
    assert broker.publish("news", b"6").sequence_number == 6
    assert event(counted)[1].payload == event(subscribed)[1].payload == b"6"
    # A durable topic: what the broker has acknowledged is on disk, even if the broker is killed the moment after.
    audit = broker.sidecar.Subscribe(sidecar_pb.SubscribeRequest(topics=["audit.log"], subscription_id="auditor"))
    assert event(audit)[0] == "subscription_info"
    assert broker.publish("audit.log", b"1").sequence_number == 1
    assert event(audit)[1].payload == b"1"
    # Subscriptions are written down a moment later.
    time.sleep(1)
    broker.sidecar.Unsubscribe(sidecar_pb.UnsubscribeRequest(subscription_id="auditor", pause=True))
    for number in range(2, 7):
        assert broker.publish("audit.log", b"%d" % number).sequence_number == number

    program.kill()
    broken(watch)
    broken(worker.stream)
    broken(subscribed)
    broken(counted)
    program = Program()
    until("the broker answers", lambda: grpc.channel_ready_future(broker.channel).result(TIMEOUT) is None)

    # The worker comes back with what it holds and goes on; nothing is run again.
    back = Worker(broker)
    registered = back.register("w1", "images", slots=2, instance=7, held=[attempt(held) for held in running])
    assert not registered.refused, registered
    done = [pb.Completion(task=held.task, attempt=held.attempt, result=held.body) for held in running]
    answer, before = back.ask(complete=pb.Complete(done=done))
    assert not answer.held.refused and not before, (answer, before)
    ended = broker.tasks.Wait(pb.WaitRequest(tasks=[one, two], results=True), timeout=TIMEOUT).ended
    assert {(row.state, row.result) for row in ended} == {("completed", b"one"), ("completed", b"two")}
    assert {broker.tasks.Show(pb.TaskRequest(task=task)).attempt for task in (one, two)} == {1}

    # The watcher goes on where it stopped, and misses nothing.
    watch = broker.tasks.Watch(pb.WatchRequest(**{"from": seen[-1][0] + 1}, queue="images"))
    kinds = []
    while kinds.count("completed") < 2:
        news = next(watch)
        assert news.WhichOneof("news") != "gap", news
        if news.WhichOneof("news") == "event":
            assert news.event.seq > seen[-1][0]
            kinds.append(news.event.kind)
    watch.cancel()

    # The subscriber comes back. Numbers go on, and what it will not get is said exactly.
    after = broker.publish("news", b"after").sequence_number
    assert after > 6, after
    request = sidecar_pb.ResumeSubscribeRequest(
        subscription_id="mine", gap_recovery_mode=2, last_sequence_per_topic={"news": 6}
    )
    subscribed = broker.sidecar.ResumeSubscribe(request)
    kind, info = event(subscribed)
    assert kind == "subscription_info" and list(info.topics) == ["news"], info
    kind, heard = event(subscribed)
    if after > 7:
        assert info.gap_detected and info.broker_restarted and info.missed_message_count == -1, info
        assert (kind, heard.first_missed, heard.last_missed) == ("gap", 7, after - 1), (kind, heard)
        assert heard.reason == "crashed" and after < 100_000, (heard, after)
        kind, heard = event(subscribed)
    assert (kind, heard.payload, heard.sequence_number) == ("replay_message", b"after", after)
    assert event(subscribed)[0] == "replay_complete"
    assert broker.publish("news", b"live").sequence_number == after + 1
    assert event(subscribed)[1].payload == b"live"

    # The one that keeps no numbers learns as much: what was published since its subscription was written may be lost.
    request = sidecar_pb.ResumeSubscribeRequest(subscription_id="uncounted", gap_recovery_mode=2)
    counted = broker.sidecar.ResumeSubscribe(request)
    kind, info = event(counted)
    assert info.gap_detected and info.broker_restarted and info.missed_message_count == -1, info
    kind, heard = event(counted)
    assert (kind, heard.last_missed, heard.reason) == ("gap", after - 1, "crashed"), (kind, heard)
    assert heard.first_missed in (6, 7), heard
    assert event(counted)[1].payload == b"after"
    counted.cancel()

    # The durable topic has kept everything: nothing is missing, and its numbers have no hole.
    assert broker.publish("audit.log", b"7").sequence_number == 7
    request = sidecar_pb.ResumeSubscribeRequest(
        subscription_id="auditor", gap_recovery_mode=2, last_sequence_per_topic={"audit.log": 1}
    )
    audit = broker.sidecar.ResumeSubscribe(request)
    kind, info = event(audit)
    assert kind == "subscription_info" and list(info.topics) == ["audit.log"], info
    replayed = [event(audit) for _ in range(6)]
    assert [kind for kind, _ in replayed] == ["replay_message"] * 6, replayed
    assert [(m.sequence_number, m.payload) for _, m in replayed] == [(n, b"%d" % n) for n in range(2, 8)]
    assert event(audit)[0] == "replay_complete"

    # A stop with SIGTERM ends streams with UNAVAILABLE, which clients take for a passing trouble.
    program.process.terminate()
    broken(subscribed)
    broken(back.stream)
    assert program.process.wait(TIMEOUT) == 0
finally:
    program.kill()
