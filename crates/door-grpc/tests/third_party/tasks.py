"""Every call of tenure.v1.Tasks and tenure.v1.Broker, and health and reflection."""

import threading
import time

import grpc
from common import Broker, Worker, address, attempt, pb, refused, until
from grpc import StatusCode

broker = Broker(address())
tasks, looking_after = broker.tasks, broker.broker


def one(task):
    return pb.TaskRequest(task=task)


# Submitting: each task is answered on its own.
answer = tasks.Submit(
    pb.SubmitRequest(
        terms=[pb.Terms(queue="images", tags=["gpu"]), pb.Terms(queue="")],
        tasks=[
            pb.NewTask(body=b"one", name="scan-1"),
            pb.NewTask(body=b"bad", terms=1),
            pb.NewTask(body=b"worse", terms=9),
            pb.NewTask(body=b"held", hold=True, priority=7),
        ],
    )
)
kinds = [verdict.WhichOneof("verdict") for verdict in answer.tasks]
assert kinds == ["accepted", "refused", "refused", "accepted"], kinds
assert answer.tasks[1].refused.code == "bad-name" and answer.tasks[2].refused.code == "bad-value"
first, held = answer.tasks[0].accepted, answer.tasks[3].accepted
assert (first.state, held.state) == ("ready", "created")
assert first.unserved.code == "no-worker-ever" and first.unserved.facts["queue"] == "images"

# A name makes it idempotent.
again = pb.SubmitRequest(
    terms=[pb.Terms(queue="images", tags=["gpu"])], tasks=[pb.NewTask(body=b"one", name="scan-1")]
)
known = tasks.Submit(again).tasks[0].accepted
assert known.known and known.task == first.task
assert tasks.Find(pb.FindRequest(name="scan-1")).id == first.task

# Looking.
shown = tasks.Show(one(first.task))
assert (shown.state, shown.terms.queue, list(shown.terms.tags), shown.body_bytes) == ("ready", "images", ["gpu"], 3)
assert shown.terms.submitter == "anyone"
assert tasks.Body(one(first.task)).bytes == b"one"
assert tasks.Explain(one(first.task)).code == "no-worker-ever"
assert tasks.Explain(one(held.task)).code == "held"
assert {task.id for task in tasks.List(pb.ListRequest(states=["ready", "created"])).tasks} == {first.task, held.task}
page = tasks.List(pb.ListRequest(limit=1))
assert len(page.tasks) <= 1 and page.next
with refused(StatusCode.FAILED_PRECONDITION, "wrong-state"):
    tasks.Result(one(first.task))
with refused(StatusCode.NOT_FOUND, "unknown-task"):
    tasks.Show(one("ffffffff-ffff-ffff-ffff-ffffffffffff"))
with refused(StatusCode.NOT_FOUND, "unknown-name"):
    tasks.Find(pb.FindRequest(name="absent"))
with refused(StatusCode.INVALID_ARGUMENT, "bad-value"):
    tasks.Show(one("seven"))
with refused(StatusCode.INVALID_ARGUMENT, "bad-value"):
    tasks.List(pb.ListRequest(states=["asleep"]))

# Steering.
tasks.Release(one(held.task))
tasks.Move(pb.MoveRequest(task=held.task, queue="mail", priority=3, tags=pb.TagList(tags=["licence"])))
tasks.Pause(pb.SteerRequest(task=held.task, reason="lunch"))
paused = tasks.Show(one(held.task))
assert (paused.state, paused.pause.reason, paused.priority) == ("paused", "lunch", 3)
assert (paused.terms.queue, list(paused.terms.tags)) == ("mail", ["licence"])
tasks.Resume(one(held.task))
tasks.Cancel(pb.SteerRequest(task=held.task, reason="enough"))
with refused(StatusCode.FAILED_PRECONDITION, "wrong-state"):
    tasks.Resume(one(held.task))
tasks.Retry(one(held.task))
assert tasks.Show(one(held.task)).state == "ready"
tasks.Cancel(pb.SteerRequest(task=held.task))

# Watching: from the beginning, then live; another one that comes later misses nothing.
watch = tasks.Watch(pb.WatchRequest(**{"from": 1}))
seen = []
for news in watch:
    if news.WhichOneof("news") == "live":
        break
    seen.append((news.event.seq, news.event.kind))
kinds = [kind for _, kind in seen]
assert "submitted" in kinds and "moved" in kinds and "cancelled" in kinds, kinds
assert [seq for seq, _ in seen] == sorted(seq for seq, _ in seen)
(task,) = broker.submit("images", b"news")
news = next(watch)
assert (news.event.kind, news.event.task, news.event.queue) == ("submitted", task, "images")
watch.cancel()
later = tasks.Watch(pb.WatchRequest(**{"from": seen[-1][0] + 1}, task=task))
assert next(later).event.kind == "submitted"
later.cancel()
with refused(StatusCode.INVALID_ARGUMENT, "bad-value"):
    next(tasks.Watch(pb.WatchRequest(kinds=["levitated"])))

# A cancelled watch ends its session: none is left behind.
until("the sessions of cancelled calls end", lambda: looking_after.Stats(pb.StatsRequest()).figures["tenure_sessions"] <= 2)

# Waiting: for a while in vain, then until the end, with the result.
pending = tasks.Wait(pb.WaitRequest(tasks=[task], timeout_ms=50))
assert list(pending.pending) == [task] and not pending.ended
try:
    tasks.Wait(pb.WaitRequest(tasks=[task]), timeout=0.2)
except grpc.RpcError as error:
    # Both sides watch the deadline, and the first to notice says so.
    assert error.code() in (StatusCode.DEADLINE_EXCEEDED, StatusCode.CANCELLED), error
else:
    raise AssertionError("a call outlived its deadline")
worker = Worker(broker)
worker.register("w1", "images", slots=4)


def work():
    for assigned in [worker.assignment(), worker.assignment()]:
        done = pb.Completion(task=assigned.task, attempt=assigned.attempt, result=assigned.body.upper())
        worker.ask(complete=pb.Complete(done=[done]))


thread = threading.Thread(target=work)
thread.start()
ended = tasks.Wait(pb.WaitRequest(tasks=[first.task, task], results=True), timeout=20)
thread.join()
assert {(row.task, row.state, row.result) for row in ended.ended} == {
    (first.task, "completed", b"ONE"),
    (task, "completed", b"NEWS"),
}
assert tasks.Result(one(task)).bytes == b"NEWS"
assert tasks.Wait(pb.WaitRequest(tasks=[task], results=True)).ended[0].worker == "w1"
worker.close()

# A stream of submissions, answered in order.
requests = (
    pb.SubmitRequest(terms=[pb.Terms(queue="many")], tasks=[pb.NewTask(body=b"%d" % index)]) for index in range(200)
)
answers = list(tasks.SubmitStream(requests))
assert len(answers) == 200
assert tasks.Body(one(answers[137].tasks[0].accepted.task)).bytes == b"137"

# Looking after the broker.
queues = {queue.queue: queue for queue in looking_after.Queues(pb.QueuesRequest()).queues}
assert queues["many"].counts["ready"] == 200 and not queues["many"].ever_served
looking_after.PauseQueue(pb.QueueRequest(queue="many"))
assert tasks.Explain(one(answers[0].tasks[0].accepted.task)).code == "queue-paused"
looking_after.ResumeQueue(pb.QueueRequest(queue="many"))
looking_after.SetLimit(pb.SetLimitRequest(tag="gpu", limit=2))

# A queue tells when too many tasks wait.
backlogs = tasks.Watch(pb.WatchRequest(kinds=["queue-backlog", "queue-backlog-cleared"]))
assert next(backlogs).HasField("live")
looking_after.SetThresholds(pb.SetThresholdsRequest(queue="many", thresholds=pb.Thresholds(depth=200, age_ms=3_600_000)))
told = next(backlogs).event
assert (told.kind, told.queue, told.detail.threshold, told.detail.depth) == ("queue-backlog", "many", "depth", 200)
assert told.detail.age_ms < 3_600_000
queues = {queue.queue: queue for queue in looking_after.Queues(pb.QueuesRequest()).queues}
assert list(queues["many"].backlog) == ["depth"] and queues["many"].thresholds.depth == 200
assert queues["many"].thresholds.age_ms == 3_600_000
looking_after.SetThresholds(pb.SetThresholdsRequest(queue="many"))
told = next(backlogs).event
assert (told.kind, told.detail.threshold) == ("queue-backlog-cleared", "depth")
backlogs.cancel()

limits = looking_after.Limits(pb.LimitsRequest()).limits
assert ("gpu", 2) in [(limit.tag, limit.limit) for limit in limits]
counts = looking_after.Counts(pb.CountsRequest())
assert counts.by_state["completed"] == 2 and counts.last_event > 200
assert looking_after.Stats(pb.StatsRequest()).figures["tenure_tasks_completed_total"] == 2
until("the broker lists that the worker left", lambda: [w.presence for w in broker.workers.List(pb.ListWorkersRequest()).workers] != ["live"])

# A body as long as allowed, and one that is longer.
(big,) = broker.submit("big", b"x" * (16 << 20))
assert len(tasks.Body(one(big)).bytes) == 16 << 20
with refused(StatusCode.OUT_OF_RANGE):
    broker.submit("big", b"x" * (18 << 20))

# Health and reflection, with nothing but the wire.
empty = {"request_serializer": bytes, "response_deserializer": bytes}
check = broker.channel.unary_unary("/grpc.health.v1.Health/Check", **empty)
assert check(b"") == b"\x08\x01"
assert check(b"\x0a\x0ftenure.v1.Tasks") == b"\x08\x01"
for version in ["v1", "v1alpha"]:
    reflect = broker.channel.stream_stream(
        f"/grpc.reflection.{version}.ServerReflection/ServerReflectionInfo", **empty
    )
    listed = next(reflect(iter([b"\x3a\x00"])))
    assert b"tenure.v1.Workers" in listed and b"nexusd.sidecar.SidecarService" in listed
for path in ["/tenure.v1.Tasks/Levitate", "/tenure.v9.Tasks/Show"]:
    try:
        broker.channel.unary_unary(path, **empty)(b"")
    except grpc.RpcError as error:
        assert error.code() == StatusCode.UNIMPLEMENTED and error.details(), (path, error)
    else:
        raise AssertionError(path)

# What is no id is named by its field.
verdict = tasks.Submit(pb.SubmitRequest(terms=[pb.Terms(queue="q")], tasks=[pb.NewTask(parent="seven")])).tasks[0]
assert verdict.refused.facts["what"] == "parent"
try:
    tasks.List(pb.ListRequest(parent="seven"))
except grpc.RpcError as error:
    assert error.details().startswith("parent"), error.details()
else:
    raise AssertionError("it is no id")

# Events are numbered from 1, so a watch from 0 has missed nothing.
watch = tasks.Watch(pb.WatchRequest(**{"from": 0}))
assert next(watch).event.seq == 1
watch.cancel()

# Page by page, every task once, though they change their states between two pages.
many = broker.submit("pages", *[b""] * 50)
seen, cursor = [], ""
while True:
    page = tasks.List(pb.ListRequest(queue="pages", limit=8, cursor=cursor))
    seen += [task.id for task in page.tasks]
    cursor = page.next
    if not cursor:
        break
    for task in many[len(seen) - 4 : len(seen) + 4]:
        if tasks.Show(one(task)).state == "ready":
            tasks.Cancel(pb.SteerRequest(task=task))
        else:
            tasks.Retry(one(task))
assert sorted(seen) == sorted(many), (len(seen), len(set(seen)))
