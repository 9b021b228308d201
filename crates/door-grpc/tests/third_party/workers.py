"""Every message of a worker's stream."""

import time

import grpc
from common import Broker, Worker, address, attempt, pb, refused, until
from grpc import StatusCode

broker = Broker(address())
tasks = broker.tasks


def kind(heard):
    return heard.WhichOneof("message")


def state(task):
    return tasks.Show(pb.TaskRequest(task=task)).state


# Who is no worker cannot report.
worker = Worker(broker)
answer, _ = worker.ask(heartbeat=pb.Heartbeat())
assert answer.refused.code == "not-a-worker"
answer, _ = worker.ask(register=pb.Register(worker="w1", queues=["images"], on_close="explode"))
assert answer.refused.code == "bad-value"
answer, _ = worker.ask()
assert answer.refused.code == "bad-value", answer

# No more than its free slots.
worker.register("w1", "images", slots=2, instance=77, host="here")
one, two, three = broker.submit("images", b"one", b"two", b"three")
first, second = worker.assignment(), worker.assignment()
assert (first.task, first.body, second.task) == (one, b"one", two)
assert first.terms.queue == "images" and first.terms.submitter == "anyone"
answer, _ = worker.ask(start=pb.Start(held=[attempt(first), attempt(second)]))
assert kind(answer) == "held" and not answer.held.refused
assert tasks.Explain(pb.TaskRequest(task=three)).code == "all-full"

# Progress and heartbeats.
answer, _ = worker.ask(progress=pb.Progress(task=one, attempt=1, percent=50, note="half"))
assert kind(answer) == "done"
holding = tasks.Show(pb.TaskRequest(task=one)).holding
assert (holding.worker, holding.progress.percent, holding.progress.note) == ("w1", 50, "half")
answer, _ = worker.ask(progress=pb.Progress(task=one, attempt=1, percent=400))
assert answer.refused.code == "bad-value"
stats = pb.WorkerStats(cpu_percent=12.5, memory_used=1, memory_total=2, more={"gpu": "busy"})
answer, _ = worker.ask(heartbeat=pb.Heartbeat(held=pb.HeldList(held=[attempt(first), attempt(second)]), stats=stats))
assert kind(answer) == "held" and not answer.held.refused
(told,) = broker.workers.List(pb.ListWorkersRequest()).workers
assert (told.worker, told.presence, told.door, told.host, told.slots) == ("w1", "live", "grpc", "here", 2)
assert told.stats.more["gpu"] == "busy" and len(told.held) == 2

# Completing; the freed slot takes the next one; an old attempt is refused.
answer, _ = worker.ask(complete=pb.Complete(done=[pb.Completion(task=two, attempt=1, result=b"42")]))
assert kind(answer) == "held"
third = worker.assignment()
assert third.task == three
answer, _ = worker.ask(complete=pb.Complete(done=[pb.Completion(task=two, attempt=1, result=b"43")]))
refusal = answer.held.refused[0].refusal
assert (refusal.code, refusal.facts["state"]) == ("stale-attempt", "completed")
assert tasks.Result(pb.TaskRequest(task=two)).bytes == b"42"

# Number 0 asks for no answer, and hears of refusals all the same.
worker.said.put(pb.WorkerMessage(number=0, complete=pb.Complete(done=[pb.Completion(task=two, attempt=1)])))
heard = worker.hear()
assert heard.number == 0 and heard.held.refused[0].refusal.code == "stale-attempt"

# Failing and giving back.
answer, _ = worker.ask(fail=pb.Fail(task=three, attempt=1, exit_code=3, message="no", result=b"log"))
assert kind(answer) == "done"
end = tasks.Show(pb.TaskRequest(task=three)).end
assert (end.exit_code, end.message, end.worker) == (3, "no", "w1")
(four,) = broker.submit("images", b"four")
assigned = worker.assignment()
answer, before = worker.ask(give_back=pb.GiveBack(task=four, attempt=1, reason="later"))
assert kind(answer) == "done"
assigned = before[0].assign if before else worker.assignment()
assert (assigned.task, assigned.attempt) == (four, 2)

# A cancellation reaches the worker, and is confirmed.
worker.ask(start=pb.Start(held=[attempt(assigned)]))
tasks.Cancel(pb.SteerRequest(task=four, reason="wrong scan"))
heard = worker.hear()
assert (heard.wanted.task, heard.wanted.wanted, heard.wanted.reason) == (four, "cancel", "wrong scan")
answer, _ = worker.ask(confirm=pb.Confirm(task=four, attempt=2, wanted="cancel"))
assert kind(answer) == "done" and state(four) == "cancelled"

# Its stream breaks; it comes back with what it holds, and the broker says what it may continue.
worker.stream.cancel()
until("the worker is lost", lambda: broker.workers.List(pb.ListWorkersRequest()).workers[0].presence == "lost")
assert state(one) == "running"
back = Worker(broker)
unknown = pb.Attempt(task="ffffffff-ffff-ffff-ffff-ffffffffffff", attempt=4)
registered = back.register("w1", "images", slots=2, instance=77, held=[attempt(first), unknown])
assert registered.returned
assert [(entry.index, entry.refusal.code) for entry in registered.refused] == [(1, "unknown-task")]
answer, _ = back.ask(complete=pb.Complete(done=[pb.Completion(task=one, attempt=1)]))
assert not answer.held.refused and state(one) == "completed"

# Another process of the same name is turned away; the same instance takes over.
other = Worker(broker)
answer, _ = other.ask(register=pb.Register(worker="w1", queues=["images"], instance=5))
assert answer.refused.code == "worker-taken"
answer, _ = other.ask(register=pb.Register(worker="w1", queues=["images"], instance=77))
assert kind(answer) == "registered"
assert back.hear().replaced.worker == "w1"
assert list(back.stream) == []

# Draining from outside, and leaving.
broker.workers.Drain(pb.WorkerRequest(worker="w1"))
assert kind(other.hear()) == "drain"
broker.submit("images", b"not taken")
answer, before = other.ask(leave=pb.Leave())
assert kind(answer) == "done" and not before
other.close()
assert list(other.stream) == []
with refused(StatusCode.NOT_FOUND, "unknown-worker"):
    broker.workers.Drain(pb.WorkerRequest(worker="absent"))

# A worker that fetches for itself.
puller = Worker(broker)
puller.register("p1", "pulled", pulls=True)
(pulled,) = broker.submit("pulled", b"come and get it")
answer, before = puller.ask(heartbeat=pb.Heartbeat())
assert not before
answer, before = puller.ask(ask=pb.Ask(queues=["pulled"]))
assigned = before[0].assign if before else puller.assignment()
assert assigned.body == b"come and get it"
# Naming no queue means those it registered with.
puller.ask(complete=pb.Complete(done=[pb.Completion(task=pulled, attempt=1)]))
broker.submit("pulled", b"another one")
answer, before = puller.ask(ask=pb.Ask())
assert kind(answer) == "done"
assigned = before[0].assign if before else puller.assignment()
assert assigned.body == b"another one"
answer, _ = puller.ask(unask=pb.Unask())
assert kind(answer) == "done"
answer, _ = puller.ask(drain=pb.DrainMe())
assert kind(answer) == "done"
puller.close()

# Numbers that are none are refused by name.
odd = Worker(broker)
answer, _ = odd.ask(register=pb.Register(worker="odd", queues=["images"], heartbeat_ms=0))
assert (answer.refused.code, answer.refused.facts["what"]) == ("bad-value", "heartbeat_ms")
odd.register("odd", "nothing")
answer, _ = odd.ask(heartbeat=pb.Heartbeat(stats=pb.WorkerStats(cpu_percent=float("nan"))))
assert (answer.refused.code, answer.refused.facts["what"]) == ("bad-value", "cpu_percent")
(four,) = broker.submit("nothing", b"")
assigned = odd.assignment()
for code in [0, -1, -2, -3]:
    answer, _ = odd.ask(fail=pb.Fail(task=four, attempt=1, exit_code=code))
    assert answer.refused.code == "bad-value", code
odd.close()

# The next attempt resumes from the last checkpoint.
first = Worker(broker)
first.register("first", "long")
(long,) = broker.submit("long", b"three days")
assert first.assignment().checkpoint_bytes == 0
assert tasks.Checkpoint(pb.TaskRequest(task=long)).bytes == b""
for row in [b"row 1", b"row 2000"]:
    answer, _ = first.ask(save_checkpoint=pb.SaveCheckpoint(task=long, attempt=1, checkpoint=row))
    assert kind(answer) == "done"
answer, _ = first.ask(save_checkpoint=pb.SaveCheckpoint(task=long, attempt=7, checkpoint=b"too late"))
assert answer.refused.code == "stale-attempt"
told = tasks.Show(pb.TaskRequest(task=long)).checkpoint
assert (told.attempt, told.bytes) == (1, 8) and told.at
first.ask(leave=pb.Leave())
second = Worker(broker)
second.register("second", "long")
assigned = second.assignment()
assert (assigned.task, assigned.attempt, assigned.checkpoint_bytes) == (long, 2, 8)
assert tasks.Checkpoint(pb.TaskRequest(task=long)).bytes == b"row 2000"
second.ask(complete=pb.Complete(done=[pb.Completion(task=long, attempt=2)]))
assert not tasks.Show(pb.TaskRequest(task=long)).HasField("checkpoint")

# What a task prints is read page by page, and only its holder adds to it.
printer = Worker(broker)
printer.register("printer", "prints")
(prints,) = broker.submit("prints", b"")
assert printer.assignment().task == prints
answer, _ = printer.ask(append_log=pb.AppendLog(task=prints, attempt=1, stream=1, bytes=b"hello"))
assert kind(answer) == "done", answer
answer, _ = printer.ask(append_log=pb.AppendLog(task=prints, attempt=1, stream=2, offset=7, bytes=b"oh"))
assert kind(answer) == "done", answer
answer, _ = printer.ask(append_log=pb.AppendLog(task=prints, attempt=2, stream=1, bytes=b"too late"))
assert answer.refused.code == "stale-attempt", answer
answer, _ = printer.ask(append_log=pb.AppendLog(task=prints, attempt=1, stream=3, bytes=b"nowhere"))
assert answer.refused.code == "bad-value", answer


def page(after=0):
    return tasks.Logs(pb.LogsRequest(task=prints, after=after))


until("both pieces are kept", lambda: len(page().pieces) == 2)
out, err = page().pieces
assert (out.attempt, out.stream, out.offset, out.bytes) == (1, 1, 0, b"hello") and out.at
assert (err.attempt, err.stream, err.offset, err.bytes) == (1, 2, 7, b"oh")
assert not page().more and not page(page().next).pieces
printer.ask(complete=pb.Complete(done=[pb.Completion(task=prints, attempt=1)]))
