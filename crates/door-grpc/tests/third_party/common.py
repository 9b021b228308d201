"""What the scripts share: the services, loaded from the protocol files, and a few short words."""

import contextlib
import faulthandler
import queue
import sys
import time

import grpc

# A script that hangs says where, before the test times out.
faulthandler.dump_traceback_later(60, exit=True)


class Everything:
    """What the files of a package have together."""


pb, services = Everything, Everything
for file in ["common", "tasks", "workers", "broker", "schedules", "topics"]:
    for module in grpc.protos_and_services(f"tenure/v1/{file}.proto"):
        for name, value in vars(module).items():
            if name[0].isupper():
                setattr(Everything, name, value)
sidecar_pb, sidecar_services = grpc.protos_and_services("nexusd/sidecar.proto")

TIMEOUT = 20


class Broker:
    """All services behind one channel."""

    def __init__(self, address, metadata=()):
        self.channel = grpc.insecure_channel(
            address,
            options=[
                ("grpc.initial_reconnect_backoff_ms", 100),
                ("grpc.max_reconnect_backoff_ms", 300),
                ("grpc.max_receive_message_length", 32 << 20),
            ],
        )
        self.metadata = metadata
        self.tasks = services.TasksStub(self.channel)
        self.workers = services.WorkersStub(self.channel)
        self.broker = services.BrokerStub(self.channel)
        self.sidecar = sidecar_services.SidecarServiceStub(self.channel)

    def submit(self, queue_name, *bodies, metadata=(), **terms):
        request = pb.SubmitRequest(
            terms=[pb.Terms(queue=queue_name, **terms)], tasks=[pb.NewTask(body=body) for body in bodies]
        )
        answer = self.tasks.Submit(request, timeout=TIMEOUT, metadata=metadata or self.metadata)
        return [verdict.accepted.task for verdict in answer.tasks]

    def publish(self, topic, payload, **more):
        request = sidecar_pb.PublishRequest(topic=topic, payload=payload, **more)
        return self.sidecar.Publish(request, timeout=TIMEOUT, metadata=self.metadata)


class Worker:
    """A worker's stream: says something, hears what comes."""

    def __init__(self, broker, metadata=()):
        self.said = queue.Queue()
        self.number = 0
        self.stream = broker.workers.Work(iter(self.said.get, None), metadata=metadata)

    def say(self, **message):
        self.number += 1
        self.said.put(pb.WorkerMessage(number=self.number, **message))
        return self.number

    def hear(self):
        return next(self.stream)

    def ask(self, **message):
        """The answer, and what came before it."""
        number = self.say(**message)
        before = []
        while True:
            heard = self.hear()
            if heard.number == number:
                return heard, before
            before.append(heard)

    def register(self, name, *queues, **more):
        answer, _ = self.ask(register=pb.Register(worker=name, queues=queues, **more))
        assert answer.WhichOneof("message") == "registered", answer
        return answer.registered

    def assignment(self):
        heard = self.hear()
        assert heard.WhichOneof("message") == "assign", heard
        return heard.assign

    def close(self):
        self.said.put(None)


@contextlib.contextmanager
def refused(code, word=None):
    """The call inside is refused with this status and this stable code."""
    try:
        yield
    except grpc.RpcError as error:
        trailers = dict(error.trailing_metadata() or ())
        assert error.code() == code, (error.code(), error.details())
        if word:
            assert trailers.get("tenure-code") == word, (trailers, error.details())
            assert "grpc-status-details-bin" in trailers
    else:
        raise AssertionError(f"not refused with {code}")


def attempt(assigned):
    return pb.Attempt(task=assigned.task, attempt=assigned.attempt)


def until(what, condition):
    deadline = time.monotonic() + TIMEOUT
    while not condition():
        assert time.monotonic() < deadline, f"never: {what}"
        time.sleep(0.02)


def address():
    return sys.argv[1]
