"""What a key allows, and what it does not."""

import grpc
from common import Broker, Worker, address, pb, refused, sidecar_pb
from grpc import StatusCode

broker = Broker(address())


def key(text, **more):
    return [("authorization", f"Bearer {text}"), *((name.replace("_", "-"), value) for name, value in more.items())]


# Without a key, or with a wrong one, no client comes in. Existing clients give up at PERMISSION_DENIED.
counts = pb.CountsRequest()
for metadata in [(), key("wrong"), [("authorization", "Basic lab-key")]]:
    with refused(StatusCode.UNAUTHENTICATED, "not-allowed"):
        broker.broker.Counts(counts, metadata=metadata)
    with refused(StatusCode.PERMISSION_DENIED, "not-allowed"):
        broker.sidecar.GetTopics(sidecar_pb.GetTopicsRequest(), metadata=metadata)
with refused(StatusCode.UNAUTHENTICATED, "not-allowed"):
    next(broker.workers.Work(iter([])))

# What is wrong is said: no key, another one, or something else.
said = set()
for metadata in [(), key("wrong"), [("authorization", "Basic lab-key")]]:
    try:
        broker.broker.Counts(counts, metadata=metadata)
    except grpc.RpcError as error:
        said.add(error.details())
assert len(said) == 3, said

# Health needs none.
broker.channel.unary_unary("/grpc.health.v1.Health/Check")(b"")

# One that may only look.
looker = key("looker")
broker.broker.Counts(counts, metadata=looker)
with refused(StatusCode.PERMISSION_DENIED, "not-allowed"):
    broker.submit("images", b"x", metadata=looker)
with refused(StatusCode.PERMISSION_DENIED, "not-allowed"):
    broker.broker.SetLimit(pb.SetLimitRequest(tag="gpu", limit=1), metadata=looker)
with refused(StatusCode.PERMISSION_DENIED, "not-allowed"):
    next(broker.workers.Work(iter([]), metadata=looker))
with refused(StatusCode.PERMISSION_DENIED, "not-allowed"):
    broker.sidecar.Publish(sidecar_pb.PublishRequest(topic="a"), metadata=looker)

# One worker and no other.
worker = Worker(broker, key("worker"))
answer, _ = worker.ask(register=pb.Register(worker="w8", queues=["images"]))
assert answer.refused.code == "not-allowed"
worker.register("w7", "images")
worker.close()

# A key that is bound to a namespace works there and nowhere else.
lab = key("lab-key")
(task,) = broker.submit("images", b"x", metadata=lab)
assert broker.tasks.Show(pb.TaskRequest(task=task), metadata=lab).terms.submitter == "lab"
with refused(StatusCode.NOT_FOUND, "unknown-task"):
    broker.tasks.Show(pb.TaskRequest(task=task), metadata=looker)
assert broker.tasks.Show(pb.TaskRequest(task=task), metadata=key("looker", tenure_namespace="lab")).id == task
with refused(StatusCode.PERMISSION_DENIED, "not-allowed"):
    broker.broker.Counts(counts, metadata=key("lab-key", tenure_namespace="default"))
(task,) = broker.submit("images", b"x", metadata=key("lab-key", tenure_identity="ada"))
assert broker.tasks.Show(pb.TaskRequest(task=task), metadata=lab).terms.submitter == "ada"
# Topics of another namespace are not heard of.
broker.sidecar.Publish(sidecar_pb.PublishRequest(topic="secret"), metadata=lab)
assert not broker.sidecar.GetTopics(sidecar_pb.GetTopicsRequest(), metadata=looker).topics
