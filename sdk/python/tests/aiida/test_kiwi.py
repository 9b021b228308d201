"""The contract of ``kiwipy.Communicator``, method by method."""

from __future__ import annotations

import asyncio
import gc
import os
import select
import threading
import time
import uuid
from collections.abc import Iterator
from concurrent.futures import Future, wait
from typing import Any, Callable

import kiwipy
import pytest
from conftest import LONG
from tenure.kiwi import Communicator, _broadcast
from tenure.testing import Broker

SOON = 30.0


@pytest.fixture
def make(shared_broker: Broker) -> Iterator[Callable[..., Communicator]]:
    """Communicators in a namespace of their own."""
    namespace, made = uuid.uuid4().hex, []

    def one(**settings: Any) -> Communicator:
        communicator = Communicator(shared_broker.address, namespace=namespace, **settings)
        made.append(communicator)
        return communicator

    yield one
    for communicator in made:
        communicator.close()


@pytest.fixture
def here(make: Callable[..., Communicator]) -> Communicator:
    return make()


@pytest.fixture
def there(make: Callable[..., Communicator]) -> Communicator:
    return make()


def until(what: str, so: Callable[[], Any]) -> None:
    deadline = time.monotonic() + SOON
    while not so():
        assert time.monotonic() < deadline, f"not in time: {what}"
        time.sleep(0.01)


def echo(_: Any, message: Any) -> Any:
    return message


def test_a_closed_communicator_refuses_everything(here: Communicator) -> None:
    here.close()
    here.close()
    assert here.is_closed()
    for act in (
        lambda: here.add_rpc_subscriber(echo, "one"),
        lambda: here.remove_rpc_subscriber("one"),
        lambda: here.rpc_send("one", None),
        lambda: here.add_task_subscriber(echo),
        lambda: here.remove_task_subscriber("one"),
        lambda: here.task_send(None),
        lambda: here.task_queue("other"),
        lambda: here.add_broadcast_subscriber(echo),
        lambda: here.remove_broadcast_subscriber("one"),
        lambda: here.broadcast_send(None),
        lambda: here.add_close_callback(print),
        lambda: here.server_properties,
    ):
        with pytest.raises(kiwipy.CommunicatorClosed):
            act()


def test_a_with_block_closes_and_calls_back(make: Callable[..., Communicator]) -> None:
    told = []
    with make() as communicator:
        assert not communicator.is_closed()
        communicator.add_close_callback(lambda sender, error: told.append((sender, error)))
    assert communicator.is_closed()
    assert told == [(communicator, None)]


def test_the_broker_tells_of_itself(here: Communicator) -> None:
    properties = here.server_properties
    assert properties["product"] == "Tenure"
    assert properties["version"]


# Calls


def test_a_call_is_answered_here_and_there(here: Communicator, there: Communicator) -> None:
    assert here.add_rpc_subscriber(lambda _, message: message * 2, "twice") == "twice"
    assert here.rpc_send("twice", 4).result(SOON) == 8
    assert there.rpc_send("twice", "ab").result(SOON) == "abab"


def test_an_identifier_may_be_a_number(here: Communicator, there: Communicator) -> None:
    here.add_rpc_subscriber(echo, "17")
    assert there.rpc_send(17, "hello").result(SOON) == "hello"


def test_a_subscriber_without_an_identifier_gets_one(here: Communicator, there: Communicator) -> None:
    identifier = here.add_rpc_subscriber(echo)
    assert there.rpc_send(identifier, 1).result(SOON) == 1


def test_a_call_without_a_subscriber_raises_at_once(here: Communicator, there: Communicator) -> None:
    with pytest.raises(kiwipy.UnroutableError):
        here.rpc_send("absent", None)
    here.add_rpc_subscriber(echo, "someone")
    here.remove_rpc_subscriber("someone")
    with pytest.raises(kiwipy.UnroutableError):
        here.rpc_send("someone", None)
    with pytest.raises(kiwipy.UnroutableError):
        there.rpc_send("someone", None)
    here.add_rpc_subscriber(echo, "someone")
    assert there.rpc_send("someone", "again").result(SOON) == "again"


def test_an_rpc_identifier_is_taken_once(here: Communicator) -> None:
    here.add_rpc_subscriber(echo, "one")
    with pytest.raises(kiwipy.DuplicateSubscriberIdentifier):
        here.add_rpc_subscriber(echo, "one")
    here.remove_rpc_subscriber("one")
    with pytest.raises(ValueError):
        here.remove_rpc_subscriber("one")
    here.add_rpc_subscriber(echo, "one")


def test_an_exception_comes_back_as_text(here: Communicator, there: Communicator) -> None:
    def fail(_: Any, message: Any) -> None:
        raise RuntimeError(f"cannot {message}")

    here.add_rpc_subscriber(fail, "fail")
    with pytest.raises(kiwipy.RemoteException, match="cannot fly"):
        there.rpc_send("fail", "fly").result(SOON)
    here.add_rpc_subscriber(lambda *_: object(), "strange")
    with pytest.raises(kiwipy.RemoteException, match="cannot be encoded"):
        there.rpc_send("strange", None).result(SOON)


def resolved(value: Any) -> Future[Any]:
    future: Future[Any] = Future()
    future.set_result(value)
    return future


def test_futures_of_futures_come_back_nested(here: Communicator, there: Communicator) -> None:
    here.add_rpc_subscriber(lambda *_: resolved(resolved("deep")), "nested")
    first = there.rpc_send("nested", None).result(SOON)
    assert isinstance(first, Future)
    second = first.result(SOON)
    assert isinstance(second, Future)
    assert second.result(SOON) == "deep"


def test_a_slow_future_is_pending_first(here: Communicator, there: Communicator) -> None:
    outer: Future[Any] = Future()
    here.add_rpc_subscriber(lambda *_: outer, "slow")
    first = there.rpc_send("slow", None).result(SOON)
    assert isinstance(first, Future) and not first.done()
    inner: Future[Any] = Future()
    outer.set_result(inner)
    second = first.result(SOON)
    assert isinstance(second, Future) and not second.done()
    inner.set_result("at last")
    assert second.result(SOON) == "at last"


def test_slow_futures_bring_exceptions_and_cancellations(here: Communicator, there: Communicator) -> None:
    failing: Future[Any] = Future()
    cancelled: Future[Any] = Future()
    here.add_rpc_subscriber(lambda *_: failing, "failing")
    here.add_rpc_subscriber(lambda *_: cancelled, "cancelled")
    first, second = (there.rpc_send(name, None).result(SOON) for name in ("failing", "cancelled"))
    failing.set_exception(ValueError("broken"))
    with pytest.raises(kiwipy.RemoteException, match="broken"):
        first.result(SOON)
    cancelled.cancel()
    with pytest.raises(kiwipy.CancelledError):
        second.result(SOON)


def test_a_call_fails_at_once_when_its_receiver_disappears(make: Callable[..., Communicator]) -> None:
    here, there = make(), make()
    there.add_rpc_subscriber(lambda *_: Future(), "gone")
    first = here.rpc_send("gone", None).result(SOON)
    there.close()
    with pytest.raises((kiwipy.DeliveryFailed, kiwipy.CancelledError)):
        first.result(SOON)


def test_a_subscriber_may_use_the_communicator(here: Communicator, there: Communicator) -> None:
    there.add_rpc_subscriber(echo, "echo")

    def forward(communicator: Communicator, message: Any) -> Any:
        communicator.broadcast_send(None, subject="forwarded")
        return communicator.rpc_send("echo", message)

    here.add_rpc_subscriber(forward, "forward")
    assert here.rpc_send("forward", 5).result(SOON).result(SOON) == 5


# Tasks


def test_a_task_is_done_and_its_result_comes_back(here: Communicator, there: Communicator) -> None:
    here.add_task_subscriber(lambda _, body: body["n"] + 1)
    future = there.task_send({"n": 41})
    assert future is not None and future.result(SOON) == 42


def test_values_come_out_as_they_went_in(here: Communicator, there: Communicator) -> None:
    value = {"id": uuid.uuid4(), "many": [1, 2.5, None, True, b"raw"], "pair": (1, "two")}
    here.add_task_subscriber(echo)
    future = there.task_send(value)
    assert future is not None and future.result(SOON) == value


def test_a_task_without_a_reply_returns_nothing(here: Communicator) -> None:
    done: Future[Any] = Future()
    here.add_task_subscriber(lambda _, body: done.set_result(body))
    assert here.task_send("quiet", no_reply=True) is None
    assert done.result(SOON) == "quiet"


def test_a_task_waits_until_there_is_a_subscriber(here: Communicator, there: Communicator) -> None:
    future = there.task_send("early")
    identifier = here.add_task_subscriber(echo, "late")
    assert identifier == "late"
    assert future is not None and future.result(SOON) == "early"
    here.remove_task_subscriber("late")
    later = there.task_send("later")
    with pytest.raises(kiwipy.TimeoutError):
        later.result(0.3)
    here.add_task_subscriber(echo)
    assert later.result(SOON) == "later"


def test_a_task_identifier_is_taken_once(here: Communicator) -> None:
    here.add_task_subscriber(echo, "one")
    with pytest.raises(kiwipy.DuplicateSubscriberIdentifier):
        here.add_task_subscriber(echo, "one")
    here.remove_task_subscriber("one")
    with pytest.raises(ValueError):
        here.remove_task_subscriber("one")


def test_a_task_that_fails_is_done(here: Communicator, there: Communicator) -> None:
    calls = []

    def fail(_: Any, body: Any) -> None:
        calls.append(body)
        raise RuntimeError("no good")

    here.add_task_subscriber(fail)
    with pytest.raises(kiwipy.RemoteException, match="no good"):
        there.task_send("bad").result(SOON)
    future = there.task_send("next")
    with pytest.raises(kiwipy.RemoteException):
        future.result(SOON)
    assert calls == ["bad", "next"]


class Speechless(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


@pytest.mark.parametrize(
    ("error", "said"),
    [(OSError("caf\udce9"), r"caf\\udce9"), (Speechless(), "cannot be read")],
    ids=["surrogate", "speechless"],
)
def test_an_exception_whose_text_cannot_be_read_ends_the_task_all_the_same(
    here: Communicator, there: Communicator, error: Exception, said: str
) -> None:
    def fail(_: Any, body: Any) -> None:
        raise error

    here.add_task_subscriber(fail)
    with pytest.raises(kiwipy.RemoteException, match=said):
        there.task_send("bad").result(SOON)
    here.add_rpc_subscriber(fail, "fails")
    with pytest.raises(kiwipy.RemoteException, match=said):
        there.rpc_send("fails", "bad").result(SOON).result(SOON)
    queue = here.task_queue("unreadable")
    future = queue.task_send("bad")
    with queue.next_task(timeout=SOON) as task:
        task.process().set_exception(error)
    with pytest.raises(kiwipy.RemoteException, match=said):
        future.result(SOON)
    with pytest.raises(kiwipy.QueueEmpty), queue.next_task(timeout=0.2):
        pass


def test_a_slow_task_is_pending_first(here: Communicator, there: Communicator) -> None:
    result: Future[Any] = Future()
    here.add_task_subscriber(lambda *_: result)
    first = there.task_send("slow").result(SOON)
    assert isinstance(first, Future) and not first.done()
    result.set_result("done")
    assert first.result(SOON) == "done"


def test_subscribers_are_tried_in_their_order(here: Communicator, there: Communicator) -> None:
    order = []

    def reject(name: str) -> Callable[..., Any]:
        def one(_: Any, body: Any) -> Any:
            order.append(name)
            if name == "first":
                raise kiwipy.TaskRejected("not mine")
            failed: Future[Any] = Future()
            failed.set_exception(kiwipy.TaskRejected("not mine either"))
            return failed

        return one

    here.add_task_subscriber(reject("first"))
    here.add_task_subscriber(reject("second"))
    here.add_task_subscriber(lambda _, body: order.append("third") or "taken")
    assert there.task_send("whose?").result(SOON) == "taken"
    assert order == ["first", "second", "third"]


def test_a_task_that_every_subscriber_rejects_goes_to_another_worker(here: Communicator, there: Communicator) -> None:
    rejected = threading.Event()

    def reject(_: Any, body: Any) -> None:
        rejected.set()
        raise kiwipy.TaskRejected("never")

    here.add_task_subscriber(reject)
    future = there.task_send("please")
    assert rejected.wait(SOON)
    there.add_task_subscriber(lambda *_: "mine")
    assert future.result(SOON) == "mine"


def test_a_cancelled_task_is_done_again(here: Communicator, there: Communicator) -> None:
    attempts: list[Future[Any]] = []

    def take(_: Any, body: Any) -> Any:
        attempts.append(Future())
        return attempts[-1] if len(attempts) == 1 else "second"

    here.add_task_subscriber(take)
    future = there.task_send("again")
    until("the first attempt runs", lambda: attempts)
    attempts[0].cancel()
    outcome = future.result(SOON)
    assert (outcome.result(SOON) if isinstance(outcome, Future) else outcome) == "second"


def test_unfinished_tasks_go_back_to_the_front_on_close(make: Callable[..., Communicator]) -> None:
    sender, first, second = make(), make(task_prefetch_count=1), make(task_prefetch_count=1)
    begun, done = [], []
    first.add_task_subscriber(lambda _, body: begun.append(body) or Future())
    for number in range(3):
        sender.task_send(number, no_reply=True)
    until("the first task runs", lambda: begun == [0])
    first.close()
    second.add_task_subscriber(lambda _, body: done.append(body))
    until("the others are done", lambda: len(done) == 3)
    assert done == [0, 1, 2]


def test_a_worker_takes_as_many_tasks_as_it_has_slots(make: Callable[..., Communicator]) -> None:
    sender, worker = make(), make(task_prefetch_count=2)
    running: list[Future[Any]] = []
    worker.add_task_subscriber(lambda *_: running.append(Future()) or running[-1])
    for number in range(3):
        sender.task_send(number, no_reply=True)
    until("two run", lambda: len(running) == 2)
    # A later task through the same worker would have come after the third.
    assert sender.rpc_send(worker.add_rpc_subscriber(echo), 1).result(SOON) == 1
    assert len(running) == 2
    running[0].set_result(None)
    until("the third runs", lambda: len(running) == 3)
    for one in running[1:]:
        one.set_result(None)


def test_the_same_work_again_shares_what_runs(make: Callable[..., Communicator]) -> None:
    sender, worker = make(), make(task_key=lambda body: body["pid"])
    calls, result = [], Future()
    worker.add_task_subscriber(lambda _, body: calls.append(body) or result)
    one, two = sender.task_send({"pid": 7}), sender.task_send({"pid": 7})
    first = one.result(SOON)
    until("both are known", lambda: two.done() or len(calls) == 1)
    second = two.result(SOON)
    result.set_result("once")
    assert first.result(SOON) == second.result(SOON) == "once"
    assert len(calls) == 1


# Queues


def test_queues_are_apart(here: Communicator, there: Communicator) -> None:
    here.add_task_subscriber(lambda *_: "default")
    queue = here.task_queue("special")
    identifier = queue.add_task_subscriber(lambda *_: "special")
    assert there.task_queue("special").task_send(1).result(SOON) == "special"
    assert there.task_send(1).result(SOON) == "default"
    queue.remove_task_subscriber(identifier)


def test_the_next_task_can_be_taken(here: Communicator) -> None:
    queue = here.task_queue("by hand")
    future = queue.task_send("work")
    with queue.next_task(timeout=SOON) as task:
        assert (task.body, task.no_reply, task.state) == ("work", False, "pending")
        with task.processing() as outcome:
            assert task.state == "processing"
            outcome.set_result("done")
        assert task.state == "finished"
    assert future.result(SOON) == "done"
    with pytest.raises(kiwipy.QueueEmpty), queue.next_task(timeout=0.2):
        pass


def test_what_is_not_processed_goes_back(here: Communicator) -> None:
    queue = here.task_queue("by hand")
    future = queue.task_send("work")
    with queue.next_task(timeout=SOON):
        pass
    with queue.next_task(timeout=SOON) as task:
        task.requeue()
        with pytest.raises(kiwipy.InvalidStateError):
            task.requeue()
    with queue.next_task(timeout=SOON) as task, task.processing():
        pass
    with queue.next_task(timeout=SOON) as task:
        outcome = task.process()
    assert task.state == "processing"
    with pytest.raises(kiwipy.QueueEmpty), queue.next_task(timeout=0.2):
        pass
    del outcome, task
    gc.collect()
    with queue.next_task(timeout=SOON) as task:
        task.process().set_result("finally")
    assert future.result(SOON) == "finally"


def test_a_task_that_raises_while_it_is_processed_is_done(here: Communicator) -> None:
    queue = here.task_queue("by hand")
    future = queue.task_send("work")
    with pytest.raises(ZeroDivisionError), queue.next_task(timeout=SOON) as task, task.processing():
        raise ZeroDivisionError("zero")
    with pytest.raises(kiwipy.RemoteException, match="zero"):
        future.result(SOON)


def test_a_queue_can_be_iterated(here: Communicator) -> None:
    queue = here.task_queue("by hand")
    futures = [queue.task_send(number) for number in range(6)]
    for task in queue:
        if task.body < 3:
            task.process().set_result(task.body * 10)
    wait(futures[:3], SOON)
    assert [one.result(SOON) for one in futures[:3]] == [0, 10, 20]
    for task in queue:
        with task.processing() as outcome:
            outcome.set_result(task.body * 10)
    assert [one.result(SOON) for one in futures[3:]] == [30, 40, 50]
    assert list(queue) == []


# Broadcasts


def test_broadcasts_are_heard_by_all_in_order(here: Communicator, there: Communicator) -> None:
    heard: dict[str, list[Any]] = {"here": [], "there": []}
    here.add_broadcast_subscriber(lambda _, *told: heard["here"].append(told))
    there.add_broadcast_subscriber(lambda _, *told: heard["there"].append(told))
    for number in range(50):
        assert here.broadcast_send(number, sender=17, subject="state", correlation_id="c") is True
    expected = [(number, 17, "state", "c") for number in range(50)]
    until("both have heard", lambda: all(len(one) == 50 for one in heard.values()))
    assert heard == {"here": expected, "there": expected}


def test_a_slow_subscriber_misses_nothing_of_a_burst(here: Communicator, there: Communicator) -> None:
    heard: list[int] = []
    go, done = threading.Event(), threading.Event()

    def slow(_: Any, body: int, *__: Any) -> None:
        go.wait(LONG)
        heard.append(body)
        if body == 4_999:
            done.set()

    there.add_broadcast_subscriber(slow)
    for number in range(5_000):
        here.broadcast_send(number)
    go.set()
    assert done.wait(LONG)
    assert heard == list(range(5_000))


def test_a_broadcast_needs_no_subscriber(here: Communicator) -> None:
    assert here.broadcast_send("into the ether") is True


def test_filters_pass_what_they_should(here: Communicator, there: Communicator) -> None:
    heard, all_heard = [], threading.Event()
    on_heard = kiwipy.BroadcastFilter(lambda _, body, *told: heard.append(body), subject="state.*", sender=17)
    here.add_broadcast_subscriber(on_heard)
    here.add_broadcast_subscriber(lambda _, body, *told: body == "last" and all_heard.set())
    there.broadcast_send("yes", sender=17, subject="state.running")
    there.broadcast_send("other sender", sender=18, subject="state.running")
    there.broadcast_send("other subject", sender=17, subject="news")
    there.broadcast_send("last", sender=0, subject="end")
    assert all_heard.wait(SOON)
    assert heard == ["yes"]


def test_a_subscriber_that_fails_does_not_disturb_others(here: Communicator, there: Communicator) -> None:
    heard = []

    def fail(*_: Any) -> None:
        raise RuntimeError("deaf")

    here.add_broadcast_subscriber(fail)
    here.add_broadcast_subscriber(lambda _, body, *told: heard.append(body))
    there.broadcast_send(1)
    there.broadcast_send(2)
    until("both are heard", lambda: heard == [1, 2])


@pytest.mark.parametrize("error", [SystemExit, KeyboardInterrupt, GeneratorExit])
def test_nothing_that_a_subscriber_raises_ends_the_reader(
    here: Communicator, there: Communicator, error: type[BaseException]
) -> None:
    heard = []

    def leave(*_: Any) -> None:
        raise error("I leave")

    def listen(_: Any, body: Any, *told: Any) -> None:
        heard.append(body)

    here.add_rpc_subscriber(leave, "leave")
    here.add_task_subscriber(leave)
    for subscriber in (leave, listen):
        here.add_broadcast_subscriber(subscriber)
    for _ in range(2):
        with pytest.raises(kiwipy.RemoteException, match="I leave"):
            there.rpc_send("leave", None).result(SOON)
        with pytest.raises(kiwipy.RemoteException, match="I leave"):
            there.task_send("bad").result(SOON)
        there.broadcast_send("still here")
    until("both are heard", lambda: heard == ["still here"] * 2)

    # A callback of a future runs on the same thread, unless the future is done: then it runs here, at once.
    has_callback = threading.Event()

    def answer_late(_: Any, body: Any) -> Any:
        assert has_callback.wait(SOON)
        return body

    here.add_rpc_subscriber(answer_late, "late")
    answer = here.rpc_send("late", 1)
    answer.add_done_callback(leave)
    has_callback.set()
    assert answer.result(SOON) == 1
    assert here.rpc_send("late", 2).result(SOON) == 2


def test_work_that_an_event_loop_cancels_is_done_again(here: Communicator, there: Communicator) -> None:
    """The ``CancelledError`` of asyncio is not the one of ``concurrent.futures``, and no ``Exception``."""
    attempts: list[Any] = []

    def take(_: Any, body: Any) -> Any:
        attempts.append(body)
        if len(attempts) == 1:
            raise asyncio.CancelledError()
        if len(attempts) == 2:
            cancelled: Future[Any] = Future()
            cancelled.set_exception(asyncio.CancelledError())
            return cancelled
        return "third"

    here.add_task_subscriber(take)
    assert there.task_send("again").result(SOON) == "third"


def test_a_broadcast_identifier_is_taken_once(here: Communicator, there: Communicator) -> None:
    heard = []
    assert here.add_broadcast_subscriber(lambda _, body, *told: heard.append(body), "one") == "one"
    with pytest.raises(kiwipy.DuplicateSubscriberIdentifier):
        here.add_broadcast_subscriber(print, "one")
    here.remove_broadcast_subscriber("one")
    with pytest.raises(ValueError):
        here.remove_broadcast_subscriber("one")
    arrived = threading.Event()
    here.add_broadcast_subscriber(lambda *_: arrived.set())
    there.broadcast_send("unheard")
    assert arrived.wait(SOON)
    here.add_broadcast_subscriber(lambda _, body, *told: heard.append(body), "one")
    there.broadcast_send("heard")
    until("it is heard", lambda: heard)
    assert heard == ["heard"]


def test_encoders_of_the_program_are_used(make: Callable[..., Communicator]) -> None:
    settings = {"encoder": lambda value: repr(value), "decoder": lambda data: eval(data.decode())}
    here, there = make(**settings), make(**settings)
    here.add_rpc_subscriber(lambda _, message: message + 1j, "complex")
    assert there.rpc_send("complex", 2).result(SOON) == 2 + 1j


def test_scopes_are_apart(make: Callable[..., Communicator]) -> None:
    one, other = make(scope="one"), make(scope="other")
    one.add_rpc_subscriber(echo, "here")
    with pytest.raises(kiwipy.UnroutableError):
        other.rpc_send("here", None)


# A broker that goes and comes back


def echoes(communicator: Communicator) -> bool:
    try:
        return bool(communicator.rpc_send("echo", 1).result(SOON) == 1)
    except kiwipy.DeliveryFailed:
        return False


def test_everything_is_there_again_after_a_restart_of_the_broker(tenure_broker: Broker) -> None:
    with Communicator(tenure_broker.address) as here, Communicator(tenure_broker.address) as there:
        heard, result = [], Future()
        here.add_rpc_subscriber(echo, "echo")
        here.add_broadcast_subscriber(lambda _, body, *told: heard.append(body))
        here.add_task_subscriber(lambda _, body: result if body == "long" else body)
        running = there.task_send("long").result(SOON)
        tenure_broker.restart()
        until("calls arrive again", lambda: echoes(there))
        assert there.task_send("after").result(SOON) == "after"

        def is_heard() -> bool:
            there.broadcast_send("after")
            return bool(heard)

        until("broadcasts are heard again", is_heard)
        result.set_result("survived")
        assert running.result(SOON) == "survived"


def test_subscribing_and_broadcasting_never_fail_while_the_broker_is_away(tenure_broker: Broker) -> None:
    with Communicator(tenure_broker.address) as here, Communicator(tenure_broker.address) as there:
        heard = []
        there.add_broadcast_subscriber(lambda _, body, *told: heard.append(body))
        tenure_broker.kill()
        until("the loss is noticed", lambda: not here.is_connected() and not there.is_connected())
        started = time.monotonic()
        here.add_rpc_subscriber(echo, "echo")
        here.add_broadcast_subscriber(print)
        here.remove_broadcast_subscriber(here.add_broadcast_subscriber(print))
        here.add_task_subscriber(echo)
        for number in range(3):
            assert here.broadcast_send(number) is True
        assert time.monotonic() - started < 5.0
        tenure_broker.start()
        future = there.task_send("task")
        assert future.result(SOON) == "task"
        until("calls arrive", lambda: echoes(there))
        until("what was kept is sent", lambda: not here._broadcasts._unsent)


@pytest.mark.parametrize("bound", ["UNSENT_MAX", "UNSENT_BYTES_MAX"])
def test_broadcasts_that_wait_for_the_broker_are_bounded(
    tenure_broker: Broker, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, bound: str
) -> None:
    body = b"x" * 1_000
    monkeypatch.setattr(_broadcast, bound, 5 if bound == "UNSENT_MAX" else 5 * 1_100)
    with Communicator(tenure_broker.address) as here, Communicator(tenure_broker.address) as there:
        heard = []
        there.add_broadcast_subscriber(lambda _, body, sender, *told: heard.append(sender))
        tenure_broker.kill()
        until("the loss is noticed", lambda: not here.is_connected() and not there.is_connected())
        assert here.broadcast_send(body, sender=0) is True
        until("the first is in flight", lambda: here._broadcasts._in_flight is not None)
        for number in range(1, 20):
            assert here.broadcast_send(body, sender=number) is True
            assert len(here._broadcasts._unsent) <= 5
        assert here._broadcasts._dropped == 15
        assert [record.message for record in caplog.records if "dropped" in record.message] == [
            "the broker is away and the buffer is full: the oldest broadcasts are dropped"
        ]
        tenure_broker.start()
        until("what was kept is sent", lambda: not here._broadcasts._unsent)
        assert here._broadcasts._unsent_bytes == 0

        def hears() -> bool:
            here.broadcast_send(b"", sender="now")
            return "now" in heard

        until("broadcasts are heard again", hears)
        # The one in flight and the last four, as far as the other side was there again. What was dropped never comes.
        kept = [one for one in heard if one != "now"]
        assert kept == [0, 16, 17, 18, 19][5 - len(kept) :]


def test_a_closed_communicator_writes_into_no_file_of_the_program(make: Callable[..., Communicator]) -> None:
    """A future that a subscriber returned may be resolved after the end. By then the numbers of the communicator's
    pipe may belong to other files.
    """
    here = make()
    dispatcher = here._link.dispatcher
    here.close()
    until("the threads have ended", lambda: not any(thread.is_alive() for thread in dispatcher._threads))
    pipes = [os.pipe() for _ in range(16)]
    try:
        for _ in range(3):
            dispatcher.later(0.0, lambda: None)
        readers = [reader for reader, _ in pipes]
        assert select.select(readers, [], [], 0.2)[0] == []
    finally:
        for reader, writer in pipes:
            os.close(reader)
            os.close(writer)


def test_an_exclusive_name_has_one_active_task(make: Callable[..., Communicator]) -> None:
    here = make(task_terms=lambda body: {"name": f"work {body['on']}", "exclusive": True})
    first = here.task_send({"on": 7, "by": "one"})
    assert first is not None
    assert here.task_send({"on": 7, "by": "two"}, no_reply=True) is None
    second, other = here.task_send({"on": 7, "by": "three"}), here.task_send({"on": 8, "by": "four"})
    assert second is not None and other is not None
    assert second.result(SOON).result(SOON) is False
    done = []
    here.add_task_subscriber(lambda _, body: done.append(body["by"]) or body["by"])
    assert (first.result(SOON), other.result(SOON)) == ("one", "four")
    # The task has ended: the next one is work of its own, twice.
    for by in ("five", "six"):
        again = here.task_send({"on": 7, "by": by})
        assert again is not None and again.result(SOON) == by
    assert sorted(done) == ["five", "four", "one", "six"]
