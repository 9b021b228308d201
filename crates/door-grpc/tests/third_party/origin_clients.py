"""Stand-ins for the existing clients: one keeps a single number, one subscribes again with its own id, one lists topics
as a map. Their connections hold messages that they never read."""

import grpc
from common import TIMEOUT, Broker, address, pb as v1, refused, services, sidecar_pb as pb, until
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from grpc import StatusCode

broker = Broker(address())
COUNT = 800


def publish_all(topics, numbers):
    """One after the other to each topic, through one stream."""
    topic_service = services.TopicsStub(broker.channel)
    requests = (pb.PublishRequest(topic=topic, payload=str(number).encode()) for number in numbers for topic in topics)
    for verdict in topic_service.Publish(requests, timeout=TIMEOUT):
        assert verdict.WhichOneof("verdict") == "published", verdict


class OneNumber:
    """Keeps one number for all its topics, and a connection of its own that can be killed."""

    def __init__(self, topics):
        self.topics, self.id, self.last, self.heard, self.info = topics, None, 0, [], None

    def connect(self):
        self.channel = grpc.insecure_channel(address())
        stub = broker.sidecar.__class__(self.channel)
        if self.id is None:
            request = pb.SubscribeRequest(topics=self.topics, client_id="one", receive_retained=True)
            self.stream = stub.Subscribe(request)
        else:
            request = pb.ResumeSubscribeRequest(
                subscription_id=self.id, last_sequence_number=self.last, gap_recovery_mode=2
            )
            self.stream = stub.ResumeSubscribe(request)
        self.info = next(self.stream).subscription_info
        self.id = self.info.subscription_id

    def read(self, count):
        """Reads this many messages; everything else between them is passed over."""
        while count > 0:
            event = next(self.stream)
            kind = event.WhichOneof("event")
            if kind in ("message", "replay_message"):
                message = getattr(event, kind)
                self.last = message.sequence_number if kind == "message" else max(self.last, message.sequence_number)
                self.heard.append((message.topic, message.sequence_number))
                count -= 1
            else:
                assert kind != "gap", event

    def read_until(self, wanted):
        missing = wanted - set(self.heard)
        while missing:
            self.read(1)
            missing.discard(self.heard[-1])

    def kill(self):
        self.channel.close()


def is_paused(subscription):
    status = services.TopicsStub(broker.channel).Subscriptions(v1.SubscriptionsRequest(subscription_id=subscription))
    return status.subscriptions[0].paused_until_ms > 0


# Several topics or a pattern, one number, and a connection with hundreds of unread messages.
for round, topics in enumerate([["t{}.a", "t{}.b"], ["t{}.*"]]):
    names = [f"t{round}.a", f"t{round}.b"]
    client = OneNumber([topic.format(round) for topic in topics])
    client.connect()
    publish_all(names, range(COUNT))
    client.read(150)
    client.kill()
    until("it is paused", lambda: is_paused(client.id))
    publish_all(names, range(10))
    client.connect()
    assert not client.info.gap_detected and client.info.missed_message_count == 0, client.info
    assert client.info.replay_started and client.info.missed_in_all != 0, client.info
    wanted = {(name, number) for name in names for number in range(1, COUNT + 11)}
    client.read_until(wanted)
    client.kill()

# Without a number everything comes again that it may not have read, and the broker does not say that nothing was missed.
client = OneNumber(["quiet"])
client.connect()
publish_all(["quiet"], range(3))
client.read(3)
client.kill()
until("it is paused", lambda: is_paused(client.id))
client.last = 0
client.connect()
assert client.info.missed_in_all == -1 and client.info.missed_message_count == 0, client.info
client.read(3)
assert client.heard == [("quiet", 1), ("quiet", 2), ("quiet", 3)] * 2

# What it acknowledges does not come again.
more = services.TopicsStub(broker.channel)
more.Acknowledge(v1.AcknowledgeRequest(subscription_id=client.id, last_sequence_per_topic={"quiet": 3}))
client.kill()
until("it is paused", lambda: is_paused(client.id))
publish_all(["quiet"], range(1))
client.last = 0
client.connect()
assert client.info.missed_in_all == 1, client.info
client.read(1)
assert client.heard[-1] == ("quiet", 4)
client.kill()
request = v1.AcknowledgeRequest(subscription_id="absent", last_sequence_per_topic={"quiet": 3})
with refused(StatusCode.NOT_FOUND, "unknown-subscription"):
    more.Acknowledge(request)

# One that chooses its id subscribes again with it as soon as the broker knows that the connection is gone.
def subscribe_again():
    channel = grpc.insecure_channel(address())
    request = pb.SubscribeRequest(topics=["again.*"], client_id="node", subscription_id="its-own", receive_retained=True)
    while True:
        stream = broker.sidecar.__class__(channel).Subscribe(request)
        try:
            assert next(stream).subscription_info.subscription_id == "its-own"
            return channel, stream
        except grpc.RpcError as error:
            assert error.code() == StatusCode.ALREADY_EXISTS, error


channel, stream = subscribe_again()
channel.close()
channel, stream = subscribe_again()
broker.publish("again.x", b"heard")
assert next(stream).message.payload == b"heard"
channel.close()

# A list of topics is a map for clients that were compiled with one.
broker.publish("kept", b"value", retain=True)
listed = {info.topic: info for info in broker.sidecar.GetTopics(pb.GetTopicsRequest()).topics}
assert listed["kept"].has_retained and listed["kept"].subscriber_count == 0
assert listed["again.x"].subscriber_count == 1 and not listed["again.x"].has_retained

file = descriptor_pb2.FileDescriptorProto(name="map.proto", package="map", syntax="proto3")
answer = file.message_type.add(name="Answer")
entry = answer.nested_type.add(name="TopicsEntry")
entry.options.map_entry = True
field = descriptor_pb2.FieldDescriptorProto
entry.field.add(name="key", number=1, type=field.TYPE_STRING, label=field.LABEL_OPTIONAL)
entry.field.add(name="value", number=2, type=field.TYPE_INT32, label=field.LABEL_OPTIONAL)
answer.field.add(
    name="topics", number=1, type=field.TYPE_MESSAGE, label=field.LABEL_REPEATED, type_name=".map.Answer.TopicsEntry"
)
pool = descriptor_pool.DescriptorPool()
pool.Add(file)
Answer = message_factory.GetMessageClass(pool.FindMessageTypeByName("map.Answer"))
get_topics = broker.channel.unary_unary(
    "/nexusd.sidecar.SidecarService/GetTopics",
    request_serializer=pb.GetTopicsRequest.SerializeToString,
    response_deserializer=Answer.FromString,
)
counts = get_topics(pb.GetTopicsRequest())
assert counts.topics["again.x"] == 1 and counts.topics["kept"] == 0

# Figures of a subscriber that does not keep up.
slow = broker.sidecar.Subscribe(pb.SubscribeRequest(topics=["slow"], subscription_id="slow", max_buffer_size=5))
next(slow)
payload = b"x" * 100_000
for _ in range(400):
    broker.publish("slow", payload)
status = more.Subscriptions(v1.SubscriptionsRequest(subscription_id="slow")).subscriptions[0]
assert (status.queue_limit, status.high_watermark, status.policy) == (5, 5, "drop-oldest"), status
assert status.dropped.oldest > 0 and status.enqueued == 400, status
pages, asked = [], v1.SubscriptionsRequest(limit=2)
while True:
    page = more.Subscriptions(asked)
    pages.extend(one.subscription_id for one in page.subscriptions)
    if not page.HasField("next"):
        break
    asked.next = page.next
assert "slow" in pages and len(pages) == len(set(pages)) >= 5, pages

# A field that is a keyword here has another name.
task = broker.submit("alias", b"")[0]
watch = broker.tasks.Watch(v1.WatchRequest(from_event=1, task=task))
assert next(watch).event.task == task
