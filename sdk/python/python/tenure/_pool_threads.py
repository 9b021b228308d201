"""Handlers in threads, one for each task."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import logging
import threading
from collections.abc import Iterator
from typing import Any, Callable, Optional

from . import _native, _outcome
from .context import Context, _current
from .errors import Closed
from .worker import Pool

log = logging.getLogger("tenure.worker")


class ThreadPool(Pool):
    """Threads take their tasks from the native worker themselves: no queue of our own lies between."""

    def __init__(self, handler: Callable[[Context], Any], threads_max: int) -> None:
        self._handler = handler
        self._threads_max = threads_max
        self._lock = threading.Lock()
        self._threads = 0
        self._idle = 0
        self._worker: Optional[_native.Worker] = None

    def start(self, worker: _native.Worker) -> None:
        with self._lock:
            self._worker = worker
            self._add(worker)

    def _add(self, worker: _native.Worker) -> None:
        self._threads += 1
        self._idle += 1
        name = f"tenure-task-{self._threads}"
        # Daemons: the end of the program does not wait for a handler that never returns.
        threading.Thread(target=self._work, args=(worker,), name=name, daemon=True).start()

    def _work(self, worker: _native.Worker) -> None:
        while True:
            try:
                task = worker.take(None)
            except Closed:
                return
            if task is None:
                return
            with self._lock:
                self._idle -= 1
                # One thread must wait for the next task while this one runs.
                if self._idle == 0 and self._threads < self._threads_max:
                    self._add(worker)
            self.handle(task)
            with self._lock:
                self._idle += 1

    @contextlib.contextmanager
    def _without_slot(self) -> Iterator[None]:
        """The handler of this thread waits for other tasks: another thread may run one in its place."""
        with self._lock:
            self._threads_max += 1
            if self._idle == 0 and self._worker is not None:
                self._add(self._worker)
        try:
            yield
        finally:
            with self._lock:
                self._threads_max -= 1

    def handle(self, task: _native.Task) -> None:
        """Runs one task in this thread."""
        context = Context(task, self._without_slot)
        token = _current.set(context)
        try:
            # It may have been cancelled while it waited for this thread.
            context.check()
            try:
                result = self._handler(context)
                if inspect.isawaitable(result):
                    result = asyncio.run(_wait(result))
            finally:
                context._flush()
        except BaseException as error:
            _outcome.raised(task, error)
        else:
            _outcome.returned(task, result)
        finally:
            _current.reset(token)


async def _wait(result: Any) -> Any:
    return await result
