"""The worker: runs tasks in handlers of the program's own."""

from __future__ import annotations

import asyncio
import inspect
import logging
import signal
import threading
from collections.abc import Awaitable, Iterable, Mapping
from typing import Any, Callable, Optional, Union

from . import _loop, _native
from ._settings import SOFTWARE, settings
from .context import Context
from .errors import BadSetting
from .submission import Body, Quantity, Span, maybe_millis, quantities

log = logging.getLogger("tenure.worker")

#: How many tasks that weigh no slot a worker takes, unless it says otherwise.
LIGHT_SLOTS = 1_000

#: What a handler may return: the result. Nothing is an empty result.
Result = Union[Body, None]
#: Runs one task. A function that awaits runs on an event loop, any other in a thread.
Handler = Callable[[Context], Union[Result, Awaitable[Result]]]


class Worker:
    """Runs tasks of some queues in a handler.

    The connection with its heartbeats lives on a thread that does not need the interpreter: a handler may hold the
    interpreter's lock or block its event loop for any time. The worker comes back by itself when the broker was
    restarted, and keeps its tasks.

    A handler returns the result as bytes or text. What it raises fails the task, with the traceback as text;
    :class:`Fail` says more, :class:`GiveBack` gives the task back to its queue.

    >>> def shout(context):
    ...     return context.body.upper()
    >>> with Worker(shout, queues=["shout"], address=broker.address), SyncClient(broker.address) as client:
    ...     client.submit("shout", "hello").result(timeout=30)
    b'HELLO'

    A program that only works calls :meth:`run`, which drains on SIGTERM.
    """

    def __init__(
        self,
        handler: Handler,
        *,
        queues: Iterable[str],
        address: Optional[str] = None,
        namespace: Optional[str] = None,
        key: Optional[str] = None,
        id: Optional[str] = None,
        slots: int = 1,
        light_slots: Optional[int] = None,
        resources: Optional[Mapping[str, Quantity]] = None,
        capabilities: Iterable[str] = (),
        heartbeat: Optional[Span] = None,
        lost_after: Optional[Span] = None,
        lease: Optional[Span] = None,
        stop_grace: Optional[Span] = None,
        connect_timeout: Span = 30.0,
        tasks_die: bool = False,
        die_with_lease: bool = False,
        version: Optional[str] = None,
        pool: Optional[Pool] = None,
    ) -> None:
        """``slots`` says how many tasks it takes at once; ``light_slots`` how many tasks that weigh no slot
        it takes besides (1,000); ``resources`` what it has for tasks that need quantities, such as ``{"gpus":
        2, "mem": "32GB"}``; ``lease`` how long after its last sign of life its attempts are believed;
        ``tasks_die`` that a closed connection means that its tasks are dead. With ``die_with_lease`` the
        kernel kills this process when its lease ends while tasks run in it, even if it is stopped at that
        moment, so no side effect of a task happens after another worker has got it. It is for tasks that run
        in this process; the lease should not be longer than the broker's ``restart_grace`` (60 s). Both
        together: a closed connection means that the tasks are dead only if it led straight to a broker on this
        machine; behind a tunnel or a proxy, which may end alone, the lease decides.
        """
        if isinstance(queues, str):
            raise BadSetting(f"queues is the text {queues!r}: pass a list of names")
        if slots < 1:
            raise BadSetting(f"slots is {slots}: a worker takes at least one task at a time")
        peer = settings(address, namespace, key, None, connect_timeout)
        self._settings: dict[str, Any] = {
            "address": peer.address,
            "namespace": peer.namespace,
            "key": peer.key,
            "id": id,
            "queues": list(queues),
            "capabilities": list(capabilities),
            "slots": slots,
            "light_slots": light_slots,
            "resources": quantities(resources) if resources else None,
            "heartbeat_ms": maybe_millis(heartbeat),
            "lost_after_ms": maybe_millis(lost_after),
            "lease_ms": maybe_millis(lease),
            "stop_grace_ms": maybe_millis(stop_grace),
            "connect_timeout_ms": peer.connect_timeout_ms,
            "tasks_die": tasks_die,
            "die_with_lease": die_with_lease,
            "software": SOFTWARE,
            "version": version,
        }
        self._pool = pool or _pool_for(handler, tasks_max(slots, light_slots))
        self._native: Optional[_native.Worker] = None

    def start(self) -> Worker:
        """Starts the worker and returns when the broker knows it. It works in the background until it is stopped."""
        if self._native is not None:
            raise BadSetting("the worker was started already: make a new one")
        self._pool.prepare()
        self._native = _native.start_worker(self._settings)
        self._pool.start(self._native)
        return self

    def drain(self) -> None:
        """Drains: takes no new tasks, finishes the running ones, then disconnects."""
        self._started().drain()

    def stop(self) -> None:
        """Like :meth:`drain`, but asks running tasks to stop. Tasks that do not end in time count as crashed."""
        self._started().stop()

    def leave_now(self) -> None:
        """Disconnects at once, even while tasks run."""
        self._started().leave_now()

    def wait(self, timeout: Optional[Span] = None) -> bool:
        """Waits until the worker has disconnected. Raises the error if the worker gave up."""
        left: bool = self._started().ended(maybe_millis(timeout))
        if left:
            self._pool.end()
        return left

    def run(self) -> None:
        """Works until the worker is drained: by SIGTERM or SIGINT, by a client (``tenure drain``), or by :meth:`drain`.
        The second signal interrupts the running tasks, the third ends the worker at once.
        """
        if self._native is None:
            self.start()
        with _Signals(self._started()):
            self.wait()

    @property
    def is_connected(self) -> bool:
        """Whether the broker knows this worker at this moment."""
        return self._native is not None and self._native.is_connected()

    @property
    def stats(self) -> dict[str, int]:
        """Counts of the worker since its start."""
        return self._started().stats()

    def __enter__(self) -> Worker:
        return self.start() if self._native is None else self

    def __exit__(self, *_: Any) -> None:
        self.stop()
        self.wait()

    async def run_async(self) -> None:
        """The same for programs with an event loop. Handlers that await run on the running loop. Cancelling this
        stops the worker.
        """
        async with self:
            await self.wait_async()

    async def wait_async(self) -> None:
        """Waits until the worker has disconnected. Raises the error if the worker gave up."""
        native = self._started()
        await _loop.ask(lambda via: native.ended(None, via))
        self._pool.end()

    async def __aenter__(self) -> Worker:
        if self._native is None:
            await asyncio.to_thread(self._pool.prepare)
            self._native = await _loop.ask(lambda via: _native.start_worker(self._settings, via))
            self._pool.start_here(self._started())
        return self

    async def __aexit__(self, *_: Any) -> None:
        self.stop()
        await asyncio.shield(self.wait_async())

    def _started(self) -> _native.Worker:
        if self._native is None:
            raise BadSetting("the worker was not started")
        return self._native


class Pool:
    """Where handlers run."""

    def prepare(self) -> None:
        """Called before the worker is known to the broker. What cannot work raises here."""

    def start(self, worker: _native.Worker) -> None:
        """Begins to take tasks."""
        raise NotImplementedError

    def start_here(self, worker: _native.Worker) -> None:
        """The same inside the running event loop."""
        self.start(worker)

    def end(self) -> None:
        """Called when the worker has left."""


def tasks_max(slots: int, light_slots: Optional[int]) -> int:
    """How many tasks a worker holds at most."""
    return slots + (LIGHT_SLOTS if light_slots is None else light_slots)


def _pool_for(handler: Handler, most: int) -> Pool:
    from ._pool_asyncio import AsyncioPool
    from ._pool_threads import ThreadPool

    if inspect.iscoroutinefunction(handler) or inspect.iscoroutinefunction(type(handler).__call__):
        return AsyncioPool(handler)
    return ThreadPool(handler, most)


class _Signals:
    """SIGTERM and SIGINT while a worker runs, if this is the main thread; only there Python lets us."""

    def __init__(self, worker: _native.Worker) -> None:
        self._steps = [worker.drain, worker.stop, worker.leave_now]
        self._before: dict[int, Any] = {}

    def __enter__(self) -> None:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGTERM, signal.SIGINT):
                self._before[number] = signal.signal(number, self._told)

    def __exit__(self, *_: Any) -> None:
        for number, before in self._before.items():
            signal.signal(number, before)

    def _told(self, *_: Any) -> None:
        step = self._steps.pop(0) if len(self._steps) > 1 else self._steps[0]
        log.info("told to terminate", extra={"step": step.__name__})
        step()
