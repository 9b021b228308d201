"""Every call of nexusd.sidecar.SidecarService, as its existing clients make them."""

import queue
import threading
import time

import grpc
from common import TIMEOUT, Broker, address, pb as v1, refused, services, sidecar_pb as pb, until
from grpc import StatusCode

broker = Broker(address())
sidecar = broker.sidecar


def event(stream):
    """The next event that is no heartbeat: its kind and itself."""
    for heard in stream:
        kind = heard.WhichOneof("event")
        if kind != "heartbeat":
            return kind, getattr(heard, kind)
    raise AssertionError("the stream is over")


def events(stream, count):
    return [event(stream) for _ in range(count)]


def subscribe(*topics, **more):
    stream = sidecar.Subscribe(pb.SubscribeRequest(topics=topics, client_id="me", **more))
    kind, info = event(stream)
    assert kind == "subscription_info" and list(info.topics) == list(topics), (kind, info)
    assert info.subscription_id and info.timestamp_ms > 0 and not info.gap_detected
    return stream, info.subscription_id


def resume(subscription, *topics, mode=2, **more):
    request = pb.ResumeSubscribeRequest(subscription_id=subscription, topics=topics, gap_recovery_mode=mode, **more)
    stream = sidecar.ResumeSubscribe(request)
    kind, info = event(stream)
    assert kind == "subscription_info", kind
    return stream, info


def pause(subscription):
    answer = sidecar.Unsubscribe(pb.UnsubscribeRequest(subscription_id=subscription, pause=True))
    assert answer.success and 299_000 < answer.pause_ttl_ms <= 300_000


# Publishing without a subscriber, retained; a subscriber begins with it.
published = broker.publish("sensor.kitchen", b"20", retain=True, content_type="text/plain", correlation_id="c1")
assert published.success and published.message_id and published.sequence_number == 1
assert published.subscriber_count == 0
stream, subscription = subscribe("sensor.kitchen", receive_retained=True)
kind, message = event(stream)
assert (kind, message.payload, message.sequence_number) == ("retained_message", b"20", 1)
assert (message.content_type, message.correlation_id, message.topic) == ("text/plain", "c1", "sensor.kitchen")
assert message.message_id == published.message_id and message.timestamp_ms > 0

# Live, in order, with numbers.
for index in range(2, 6):
    answer = broker.publish("sensor.kitchen", b"%d" % index)
    assert (answer.subscriber_count, answer.sequence_number) == (1, index)
heard = events(stream, 4)
assert [(kind, m.sequence_number, m.payload) for kind, m in heard] == [
    ("message", n, b"%d" % n) for n in range(2, 6)
]

# A heartbeat when nothing happens.
for heard in stream:
    if heard.WhichOneof("event") == "heartbeat":
        assert heard.heartbeat.timestamp_ms > 0
        break

# Wildcards.
wild, _ = subscribe("sensor.*")
broker.publish("sensor.hall", b"h")
assert event(wild)[1].topic == "sensor.hall"
wild.cancel()

# The stream breaks. The subscription pauses on its own, and the replay brings what was missed.
stream.cancel()
last = 5


def no_subscriber_is_connected():
    global last
    last += 1
    answer = broker.publish("sensor.kitchen", b"%d" % last)
    assert answer.sequence_number == last
    return answer.subscriber_count == 0


until("a broken stream is paused", no_subscriber_is_connected)
missed = last - 5
stream, info = resume(subscription, last_sequence_per_topic={"sensor.kitchen": 5})
assert not info.gap_detected and info.missed_message_count == 0 and info.replay_started
assert info.missed_in_all == missed and not info.broker_restarted
assert info.subscription_id == subscription and list(info.topics) == ["sensor.kitchen"]
heard = events(stream, missed + 1)
assert [kind for kind, _ in heard] == ["replay_message"] * missed + ["replay_complete"]
assert [m.sequence_number for _, m in heard[:missed]] == list(range(6, last + 1))
done = heard[missed][1]
assert (done.topic, done.replayed_count, done.latest_sequence) == ("sensor.kitchen", missed, last)
assert done.subscription_id == subscription
broker.publish("sensor.kitchen", b"live")
last += 1
kind, message = event(stream)
assert (kind, message.sequence_number) == ("message", last)

# A client that keeps a single counter; and one that says nothing gets again what it may not have read.
pause(subscription)
stream, info = resume(subscription, last_sequence_number=last - 2)
assert (info.missed_message_count, info.missed_in_all) == (0, 2)
assert [m.sequence_number for _, m in events(stream, 2)] == [last - 1, last]
assert event(stream)[0] == "replay_complete"
pause(subscription)
broker.publish("sensor.kitchen", b"missed")
last += 1
stream, info = resume(subscription)
assert (info.missed_message_count, info.missed_in_all) == (0, -1)
assert [m.sequence_number for _, m in events(stream, 3)] == [last - 2, last - 1, last]
assert event(stream)[0] == "replay_complete"

# Another client comes with the same id: the newcomer takes over.
newcomer, info = resume(subscription, mode=0)
with refused(StatusCode.ABORTED, "taken-over"):
    list(stream)
broker.publish("sensor.kitchen", b"to the newcomer")
last += 1
assert event(newcomer)[1].sequence_number == last

# Pausing on purpose ends the stream; the last known value comes with the other mode.
pause(subscription)
assert all(heard.WhichOneof("event") == "heartbeat" for heard in newcomer)
stream, info = resume(subscription, mode=1)
kind, message = event(stream)
assert (kind, message.payload) == ("retained_message", b"20")

# Unsubscribing ends it for good.
assert sidecar.Unsubscribe(pb.UnsubscribeRequest(subscription_id=subscription)).success
answer = sidecar.Unsubscribe(pb.UnsubscribeRequest(subscription_id=subscription))
assert not answer.success and answer.error_message
with refused(StatusCode.NOT_FOUND, "unknown-subscription"):
    next(sidecar.ResumeSubscribe(pb.ResumeSubscribeRequest(subscription_id=subscription)))
# With topics it is created again.
stream, info = resume("my own id", "sensor.kitchen", last_sequence_per_topic={"sensor.kitchen": last - 1})
assert (info.subscription_id, info.missed_message_count) == ("my own id", 0)
assert info.missed_in_all == 1
assert event(stream)[1].payload == b"to the newcomer"
with refused(StatusCode.ALREADY_EXISTS, "subscription-exists"):
    next(sidecar.Subscribe(pb.SubscribeRequest(topics=["a"], subscription_id="my own id")))

# The buffer does not reach back any more: the gap is exact, and what is kept is replayed.
for index in range(1, 1006):
    broker.publish("busy", b"%d" % index)
stream, info = resume("late", "busy", last_sequence_per_topic={"busy": 2})
assert info.gap_detected and (info.missed_message_count, info.missed_in_all) == (3, 1003)
kind, gap = event(stream)
assert kind == "gap" and (gap.topic, gap.first_missed, gap.last_missed, gap.oldest_kept) == ("busy", 3, 5, 6)
assert gap.reason == "not-kept"
assert [m.sequence_number for _, m in events(stream, 1000)] == list(range(6, 1006))
assert event(stream)[1].replayed_count == 1000

# A time to live: what expired is neither replayed nor retained.
broker.publish("fleeting", b"gone", ttl_ms=1, retain=True)
time.sleep(0.05)
late, _ = subscribe("fleeting", receive_retained=True)
broker.publish("fleeting", b"here")
kind, message = event(late)
assert (kind, message.payload) == ("message", b"here")

# Refusals.
for request, word in [
    (pb.PublishRequest(topic="", payload=b"x"), "topic-name-empty"),
    (pb.PublishRequest(topic="a..b", payload=b"x"), "topic-level-empty"),
    (pb.PublishRequest(topic="a.*", payload=b"x"), "topic-name-wildcard"),
    (pb.PublishRequest(topic="a", payload=b"x", ttl_ms=-1), "ttl-zero"),
    (pb.PublishRequest(topic="a", payload=b"x" * (5 << 20)), "payload-too-long"),
]:
    with refused(StatusCode.INVALID_ARGUMENT, word):
        sidecar.Publish(request)
with refused(StatusCode.INVALID_ARGUMENT, "subscription-without-topics"):
    next(sidecar.Subscribe(pb.SubscribeRequest()))
with refused(StatusCode.INVALID_ARGUMENT, "wildcard-misplaced"):
    next(sidecar.Subscribe(pb.SubscribeRequest(topics=["sens*"])))
with refused(StatusCode.PERMISSION_DENIED, "topic-read-only"):
    sidecar.Publish(pb.PublishRequest(topic="task.1", payload=b"x"))

# Lists.
listed = sidecar.GetTopics(pb.GetTopicsRequest(include_counts=True))
topics = {info.topic: info for info in listed.topics}
assert topics["busy"].subscriber_count == 1 and "sensor.hall" in topics and not listed.truncated
assert list(sidecar.GetTopics(pb.GetTopicsRequest()).topics) == list(listed.topics)
assert list(sidecar.GetPeers(pb.GetPeersRequest()).peers) == []

# More of it, in tenure.v1: a stream of messages, groups, requests and answers.
topics = services.TopicsStub(broker.channel)


def member(name):
    plain = pb.SubscribeRequest(topics=["work"], client_id=name)
    stream = topics.Subscribe(v1.TopicSubscription(subscription=plain, group="team", policy="block"))
    assert event(stream)[0] == "subscription_info"
    return stream


team = [member("a"), member("b")]
requests = [pb.PublishRequest(topic="work", payload=b"%d" % number) for number in range(10)]
requests.insert(5, pb.PublishRequest(topic="a..b"))
verdicts = list(topics.Publish(iter(requests)))
assert [verdict.WhichOneof("verdict") for verdict in verdicts] == ["published"] * 5 + ["refused"] + ["published"] * 5
assert verdicts[5].refused.code == "topic-level-empty"
# Who hears how many depends on who reads faster, but each message is heard once.
heard = queue.Queue()


def listen(stream):
    while True:
        heard.put(event(stream)[1].sequence_number)


for stream in team:
    threading.Thread(target=listen, args=[stream], daemon=True).start()
assert sorted(heard.get(timeout=TIMEOUT) for _ in range(10)) == list(range(1, 11))
broker.publish("work", b"one more")
assert heard.get(timeout=TIMEOUT) == 11
with refused(StatusCode.FAILED_PRECONDITION, "no-responders"):
    topics.Request(v1.TopicRequest(message=pb.PublishRequest(topic="oracle", payload=b"?")))
oracle, _ = subscribe("oracle")
asked = topics.Request.future(v1.TopicRequest(message=pb.PublishRequest(topic="oracle", payload=b"?"), timeout_ms=20_000))
kind, question = event(oracle)
assert question.reply_to.startswith("_reply.")
broker.publish(question.reply_to, b"42", content_type="text/plain")
assert (asked.result().payload, asked.result().content_type) == (b"42", "text/plain")
with refused(StatusCode.FAILED_PRECONDITION, "unknown-request"):
    broker.publish(question.reply_to, b"43")

# What happens in the broker can be subscribed to like any topic.
news, _ = subscribe("queue.mail")
(task,) = broker.submit("mail", b"x")
kind, message = event(news)
assert (kind, message.topic) == ("message", "queue.mail") and task.encode() in message.payload

# An unknown way to close gaps is refused, rather than taken for none.
with refused(StatusCode.INVALID_ARGUMENT, "bad-value"):
    next(sidecar.ResumeSubscribe(pb.ResumeSubscribeRequest(subscription_id="any", topics=["a"], gap_recovery_mode=7)))
