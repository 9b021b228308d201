"""Task queues by name, and tasks that a program takes one by one."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterator
from concurrent.futures import CancelledError, Future
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Callable, Optional

import kiwipy

from .. import _native
from .._settings import SOFTWARE
from .._text import text_of
from ..errors import TenureError
from ._chain import End
from ._link import Link, short_name, unpack
from ._work import EXIT_EXCEPTED, Work, report_end

if TYPE_CHECKING:
    from ._send import Sending

#: The states of a task that was taken.
PENDING, PROCESSING, FINISHED, REQUEUED = "pending", "processing", "finished", "requeued"
#: An iteration over a queue ends when no task has come for this time.
ITERATION_ENDS_AFTER = 1.0
#: An iteration holds this many tasks at most.
ITERATION_SLOTS = 10_000


class TaskQueue:
    """A queue of a communicator: send to it, subscribe to it, or take its tasks one by one."""

    def __init__(self, link: Link, name: str, work: Work, sending: Sending) -> None:
        self.name = name
        self._link = link
        self._queue = short_name(name)
        self._work = work
        self._sending = sending

    def task_send(self, task: Any, no_reply: bool = False) -> Optional[Future[Any]]:
        """Sends a task; returns when it is on the broker's disk."""
        self._link.ensure_open()
        return self._sending.send(self._queue, task, no_reply)

    def add_task_subscriber(self, subscriber: Callable[..., Any], identifier: Any = None) -> Any:
        """Adds a subscriber; returns its identifier."""
        self._link.ensure_open()
        return self._work.add(subscriber, identifier)

    def remove_task_subscriber(self, identifier: Any) -> None:
        """Removes a subscriber."""
        self._link.ensure_open()
        self._work.remove(identifier)

    @contextmanager
    def next_task(self, timeout: Optional[float] = 5.0, fail: bool = True) -> Iterator[Optional[IncomingTask]]:
        """Takes the next task. What is not processed goes back at the end of the block. Raises ``kiwipy.QueueEmpty``
        when none came in time, or yields ``None`` if it should not ``fail``.
        """
        self._link.ensure_open()
        taker = _Taker(self._link, self._queue, slots=1)
        task = None
        try:
            task = taker.take(timeout)
            if task is None:
                if fail:
                    raise kiwipy.QueueEmpty(f"no task arrived in {self.name!r} within {timeout} s")
                yield None
            else:
                yield task
        finally:
            if task is not None and task.state == PENDING:
                task.requeue()
            taker.close()

    def __iter__(self) -> Iterator[IncomingTask]:
        """Takes all tasks that wait. What is not processed goes back at the end of the iteration."""
        self._link.ensure_open()
        taker = _Taker(self._link, self._queue, slots=ITERATION_SLOTS)
        taken = []
        try:
            while (task := taker.take(ITERATION_ENDS_AFTER)) is not None:
                taken.append(task)
                yield task
        finally:
            for task in taken:
                if task.state == PENDING:
                    task.requeue()
            taker.close()


class _Taker:
    """A worker that takes tasks for a program that looks at them itself."""

    def __init__(self, link: Link, queue: str, slots: int) -> None:
        self._link = link
        self._native: _native.Worker = _native.start_worker(
            {
                "address": link.settings.address,
                "namespace": link.settings.namespace,
                "key": link.settings.key,
                "queues": [queue],
                "slots": slots,
                "connect_timeout_ms": link.settings.connect_timeout_ms,
                "tasks_die": True,
                "software": SOFTWARE,
            }
        )

    def take(self, timeout: Optional[float]) -> Optional[IncomingTask]:
        while True:
            task = self._native.take(None if timeout is None else max(0, int(timeout * 1000)))
            if task is None:
                return None
            try:
                return IncomingTask(self._link, task)
            except Exception as error:
                task.fail(EXIT_EXCEPTED, f"the body is no task of a communicator: {text_of(error)}", b"", True, False)

    def close(self) -> None:
        """Takes nothing new. It leaves when what it has taken has ended."""
        try:
            while (task := self._native.take(0)) is not None:
                task.give_back("not taken")
            self._native.drain()
        except TenureError:
            # The broker is away: what is held comes back by the lease.
            pass


class IncomingTask:
    """A task that was taken from a queue."""

    def __init__(self, link: Link, native: _native.Task) -> None:
        self._link = link
        self._native = native
        told = unpack(native.body)
        self._body = link.decode(told["body"])
        self._reply = told.get("reply")
        self._state = PENDING
        self._lock = threading.RLock()
        self._outcome: Optional[weakref.ref[Future[Any]]] = None

    @property
    def body(self) -> Any:
        """What was sent."""
        return self._body

    @property
    def no_reply(self) -> bool:
        """Whether the sender wants no result."""
        return self._reply is None

    @property
    def state(self) -> str:
        """``pending``, ``processing``, ``finished`` or ``requeued``."""
        return self._state

    def process(self) -> Future[Any]:
        """Takes the task on. Set the result on the future; a future that is forgotten gives the task back."""
        self._begin()
        outcome: Future[Any] = Future()
        outcome.add_done_callback(self._done)
        self._outcome = weakref.ref(outcome, self._forgotten)
        return outcome

    @contextmanager
    def processing(self) -> Iterator[Future[Any]]:
        """Takes the task on. If no result is set by the end of the block, the task goes back."""
        self._begin()
        outcome: Future[Any] = Future()
        try:
            yield outcome
        except KeyboardInterrupt:
            raise
        except Exception as error:
            if not outcome.done():
                outcome.set_exception(error)
            raise
        finally:
            if outcome.done():
                self._done(outcome)
            else:
                self.requeue()

    def requeue(self) -> None:
        """Gives the task back."""
        with self._lock:
            if self._state not in (PENDING, PROCESSING):
                raise kiwipy.InvalidStateError(f"the task is {self._state}")
            self._state = REQUEUED
            self._outcome = None
        self._native.give_back("requeued")

    def _begin(self) -> None:
        with self._lock:
            if self._state != PENDING:
                raise kiwipy.InvalidStateError(f"the task is {self._state}")
            self._state = PROCESSING

    def _done(self, outcome: Future[Any]) -> None:
        with self._lock:
            if self._state != PROCESSING:
                return
            self._outcome = None
            if outcome.cancelled():
                self.requeue()
                return
            self._state = FINISHED
        try:
            end = End("result", outcome.result())
        except CancelledError:
            end = End("cancelled")
        except BaseException as error:
            end = End("exception", error)
        report_end(self._link, self._native, self._reply, 0, end)

    def _forgotten(self, _: Any) -> None:
        with self._lock:
            if self._state != PROCESSING:
                return
        self.requeue()
