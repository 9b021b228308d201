"""Runs tasks of a queue in the subscribers of a communicator."""

from __future__ import annotations

import contextlib
import functools
import threading
import uuid
from collections import OrderedDict
from collections.abc import Hashable
from typing import Any, Callable, Optional

import kiwipy

from .. import _native
from .._fields import FieldLogger
from .._text import encodable, text_of
from ..errors import TenureError
from ..worker import Pool, Worker
from ._chain import CANCELLED, PENDING_AFTER, Chain, End
from ._link import Link, pack, run, unpack

log = FieldLogger("tenure.kiwi")

#: A task that every subscriber rejects waits this long before it goes back, and twice as long each time.
REJECTED_FIRST, REJECTED_MAX = 0.2, 10.0
#: How many rejected tasks are remembered.
REJECTED_KEPT = 1_024
#: How long a worker that the broker does not take waits before it tries again.
AGAIN_SECONDS = 1.0
#: How long a worker may take to give its tasks back when its communicator is closed.
LEAVE_SECONDS = 5.0
#: A failure message may be as long.
MESSAGE_CHARS_MAX = 4_000
EXIT_EXCEPTED = 1

Subscriber = Callable[..., Any]
#: Tells which work a task is. Two tasks with the same key are the same work, which runs once.
Key = Callable[[Any], Optional[Hashable]]
#: Is called when the broker has given up an attempt that may still run here: with the task, its body and the reason.
OnFenced = Callable[[str, Any, str], None]
#: Is called when a client cancels a task that runs here: with the task, its body and the reason. Returns whether the
#: work was asked to end; then the task ends as cancelled when the work has ended.
OnCancel = Callable[[str, Any, str], bool]


class Work:
    """The worker of a communicator for some queues: it is known to the broker while there are subscribers."""

    def __init__(
        self,
        link: Link,
        queues: dict[str, int],
        worker_options: dict[str, Any],
        key: Key,
        on_fenced: OnFenced,
        on_cancel: OnCancel,
    ) -> None:
        self._link = link
        self._queues = queues
        self._options = worker_options
        self._key = key
        self._on_fenced = on_fenced
        self._on_cancel = on_cancel
        self._subscribers: dict[Any, Subscriber] = {}
        self._running: dict[Hashable, _Running] = {}
        self._workers: list[Worker] = []
        self._rejected: OrderedDict[str, float] = OrderedDict()
        self._lock = threading.Lock()
        self._closed = False

    def add(self, subscriber: Subscriber, identifier: Any) -> Any:
        """Registers a subscriber. The first one makes this program a worker."""
        identifier = identifier if identifier is not None else uuid.uuid4().hex
        with self._lock:
            if identifier in self._subscribers:
                raise kiwipy.DuplicateSubscriberIdentifier(f"task identifier {identifier!r} is in use")
            self._subscribers[identifier] = subscriber
            first = len(self._subscribers) == 1
        if first:
            self._start()
        return identifier

    def remove(self, identifier: Any) -> None:
        """Removes a subscriber. Without one nothing new is taken; what runs goes on."""
        with self._lock:
            if self._subscribers.pop(identifier, None) is None:
                raise ValueError(f"unknown task subscriber {identifier!r}")
            workers: list[Worker] = []
            if not self._subscribers:
                workers, self._workers = self._workers, []
        for worker in workers:
            worker.drain()

    def close(self) -> None:
        """Gives back everything that has not ended, and leaves."""
        with self._lock:
            self._closed = True
            self._subscribers.clear()
            workers, self._workers = self._workers, []
            running = list(self._running.values())
            self._running.clear()
        for worker in workers:
            _quietly(worker.drain)
        for one in running:
            one.give_back("the worker leaves")
        for worker in workers:
            _quietly(functools.partial(_leave, worker))

    def _start(self) -> None:
        started = threading.Event()
        name = f"tenure-kiwi-{self._link.id[:6]}-start"
        threading.Thread(target=self._start_all, args=(started,), name=name, daemon=True).start()
        self._link.wait(started)

    def _start_all(self, started: threading.Event) -> None:
        for queue, slots in self._queues.items():
            self._start_one(queue, slots)
        started.set()

    def _start_one(self, queue: str, slots: int) -> None:
        settings = self._link.settings
        complained = False
        while self._subscribers and not self._closed:
            worker = Worker(
                _never,
                queues=[queue],
                slots=slots,
                address=settings.address,
                namespace=settings.namespace,
                key=settings.key,
                connect_timeout=self._link.timeout,
                pool=_Taking(self),
                **self._options,
            )
            try:
                worker.start()
            except TenureError as error:
                if not complained:
                    log.warning("no worker for a queue yet", extra={"queue": queue, "error": str(error)})
                complained = True
                threading.Event().wait(AGAIN_SECONDS)
                continue
            with self._lock:
                wanted = bool(self._subscribers) and not self._closed
                if wanted:
                    self._workers.append(worker)
            if not wanted:
                _quietly(worker.drain)
            return

    def take(self, native: _native.Worker) -> None:
        """Asks for the next task."""

        def came(task: Any, error: Optional[BaseException]) -> None:
            if task is not None:
                self._link.dispatcher.call(self._begin, task)
                self.take(native)
            elif error is not None:
                log.error("a worker has ended", extra={"error": str(error)})

        self._link.dispatcher.ask(lambda via: native.take(None, via), came)

    def hear_interrupts(self, native: _native.Worker) -> None:
        """Asks for the next word of the broker about a task that runs."""

        def came(told: Any, error: Optional[BaseException]) -> None:
            if told is not None:
                task, attempt, kind, reason = told
                if kind == "stop":
                    self._link.dispatcher.call(self._fenced, task, attempt, reason or "")
                elif kind == "cancel":
                    self._link.dispatcher.call(self._cancelled, task, attempt, reason or "")
                self.hear_interrupts(native)

        self._link.dispatcher.ask(lambda via: native.next_interrupt(None, via), came)

    def _fenced(self, task: str, attempt: int, reason: str) -> None:
        with self._lock:
            held = [one for one in self._running.values() if one.forget(task, attempt)]
        for one in held:
            log.error("the broker has given up an attempt of this worker", extra={"task": task, "reason": reason})
            self._on_fenced(task, one.body, reason)

    def _cancelled(self, task: str, attempt: int, reason: str) -> None:
        with self._lock:
            held = next((one for one in self._running.values() if one.holds(task, attempt)), None)
        if held is None or held.leave(task, attempt):
            return
        if self._on_cancel(task, held.body, reason):
            held.cancelling = True

    def _begin(self, task: _native.Task) -> None:
        try:
            told = unpack(task.body)
            body = self._link.decode(told["body"])
        except Exception as error:
            task.fail(EXIT_EXCEPTED, f"the body is no task of a communicator: {text_of(error)}", b"", True, False)
            return
        try:
            key = self._key(body)
        except Exception:
            key = None
        key = ("task", task.id) if key is None else ("work", key)
        with self._lock:
            subscribers = list(self._subscribers.values())
            running = self._running.get(key)
            if running is not None and running.attach(task, told.get("reply")):
                return
            if self._closed or not subscribers:
                running = None
            else:
                running = self._running[key] = _Running(self, key, body, subscribers)
                running.attach(task, told.get("reply"))
        if running is None:
            task.give_back("the program has no task subscriber any more")
        else:
            running.next_subscriber()

    def ended(self, running: _Running) -> None:
        """What runs under this key has ended."""
        with self._lock:
            if self._running.get(running.key) is running:
                del self._running[running.key]

    def put_back(self, running: _Running, why: str) -> None:
        """The task goes back to its queue, after a while: at once it would come straight back."""
        first = running.tasks()
        delay = REJECTED_FIRST
        for task in first:
            delay = max(delay, min(self._rejected.pop(task, 0.0) * 2, REJECTED_MAX))
        for task in first:
            self._rejected[task] = delay
        while len(self._rejected) > REJECTED_KEPT:
            self._rejected.popitem(last=False)

        def give_back() -> None:
            self.ended(running)
            running.give_back(why)

        self._link.dispatcher.later(delay, give_back)

    @property
    def link(self) -> Link:
        return self._link


class _Running:
    """Work that a subscriber does, for one or more tasks."""

    def __init__(self, work: Work, key: Hashable, body: Any, subscribers: list[Subscriber]) -> None:
        self._work = work
        self._link = work.link
        self.key = key
        self.body = body
        self._subscribers = subscribers
        self._lock = threading.Lock()
        self._tasks: list[tuple[_native.Task, Optional[str]]] = []
        self._told_depth = 0
        self._chain: Optional[Chain] = None
        self._over = False
        #: The work was asked to end, because its task is cancelled.
        self.cancelling = False

    def tasks(self) -> list[str]:
        """The ids of its tasks."""
        return [task.id for task, _ in self._tasks]

    def attach(self, task: _native.Task, reply: Optional[str]) -> bool:
        """Another task, or another attempt, waits for the same work. Not if the work is over."""
        with self._lock:
            if self._over:
                return False
            self._tasks.append((task, reply))
            again = len(self._tasks) > 1
        if again:
            log.warning("a task came again while its work runs here: it shares the result", extra={"task": task.id})
        return True

    def holds(self, task: str, attempt: int) -> bool:
        """Whether this attempt is one of these."""
        return any(one.id == task and one.attempt == attempt for one, _ in self._tasks)

    def leave(self, task: str, attempt: int) -> bool:
        """Ends a cancelled task if others wait for the same work, which then goes on for them."""
        with self._lock:
            if len(self._tasks) < 2:
                return False
            gone = [one for one in self._tasks if one[0].id == task and one[0].attempt == attempt]
            self._tasks = [one for one in self._tasks if one not in gone]
        for one, _ in gone:
            one.confirm_cancelled(b"")
        return True

    def forget(self, task: str, attempt: int) -> bool:
        """An attempt is over at the broker. Whether it was one of these."""
        with self._lock:
            gone = [one for one in self._tasks if one[0].id == task and one[0].attempt == attempt]
            self._tasks = [one for one in self._tasks if one not in gone]
        for one, _ in gone:
            one.give_back(None)
        return bool(gone)

    def give_back(self, why: str) -> None:
        """The work is not finished here: another worker gets it."""
        for task, _ in self._take():
            task.give_back(why)

    def next_subscriber(self) -> None:
        """Hands the work to the next subscriber."""
        if not self._subscribers:
            self._work.put_back(self, "rejected by every subscriber")
            return
        subscriber = self._subscribers.pop(0)
        try:
            result = run(subscriber, self._link.communicator, self.body)
        except kiwipy.TaskRejected:
            self.next_subscriber()
        except CANCELLED:
            self._work.put_back(self, "cancelled by the subscriber")
        except BaseException as error:
            log.exception("a task subscriber failed")
            self._finish(0, End("exception", error))
        else:
            self._chain = Chain(result, self._changed)

    def _changed(self, chain: Chain) -> None:
        end = chain.end
        if end is None:
            depth = chain.depth
            self._link.dispatcher.later(PENDING_AFTER, lambda: self._tell_pending(chain, depth))
        elif end.kind == "cancelled" and not self.cancelling:
            self._work.put_back(self, "cancelled by the subscriber")
        elif end.kind == "exception" and isinstance(end.value, kiwipy.TaskRejected):
            self._link.dispatcher.call(self.next_subscriber)
        else:
            self._finish(chain.depth, end)

    def _finish(self, depth: int, end: End) -> None:
        self._work.ended(self)
        for task, reply in self._take():
            if self.cancelling and end.kind != "result":
                task.confirm_cancelled(b"")
            else:
                report_end(self._link, task, reply, depth, end)

    def _take(self) -> list[tuple[_native.Task, Optional[str]]]:
        with self._lock:
            self._over = True
            tasks, self._tasks = self._tasks, []
        return tasks

    def _tell_pending(self, chain: Chain, depth: int) -> None:
        if chain.end is not None or chain.depth != depth or depth <= self._told_depth or self._link.closed:
            return
        self._told_depth = depth
        for task, reply in list(self._tasks):
            if reply is not None:
                told = pack({"do": "pending", "task": task.id, "depth": depth})
                # The sender may be gone; the result stays with the broker.
                self._link.dispatcher.ask(
                    lambda via, to=reply, told=told: self._link.client.call(to, told, None, via),  # type: ignore[misc]
                    lambda value, error: None,
                )


def report_end(link: Link, task: _native.Task, reply: Optional[str], depth: int, end: End) -> None:
    """Ends a task with the end of its work. What cannot be reported fails it: its slot would stay occupied."""
    try:
        told = b"" if reply is None else pack({"depth": depth, "end": link.encode_end(end)})
        if end.kind == "exception":
            message = f"{encodable(type(end.value).__name__)}: {text_of(end.value)}"[:MESSAGE_CHARS_MAX]
            task.fail(EXIT_EXCEPTED, message, told, True, False)
        else:
            task.complete(told)
    except Exception as error:
        log.error("the end of a task could not be reported", extra={"task": task.id, "error": text_of(error)})
        task.fail(EXIT_EXCEPTED, "the end of the work could not be reported", b"", True, False)


class _Taking(Pool):
    def __init__(self, work: Work) -> None:
        self._work = work

    def start(self, worker: _native.Worker) -> None:
        self._work.take(worker)
        self._work.hear_interrupts(worker)


def _never(context: Any) -> None:
    raise AssertionError("tasks of a communicator run in its subscribers")


def _leave(worker: Worker) -> None:
    if not worker.wait(LEAVE_SECONDS):
        worker.leave_now()


def _quietly(act: Callable[[], Any]) -> None:
    # The interpreter may exit, or the broker be away: what is held comes back by the worker's lease.
    with contextlib.suppress(TenureError):
        act()
