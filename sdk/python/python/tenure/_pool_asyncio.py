"""Handlers that await: on an event loop in a thread of its own."""

from __future__ import annotations

import asyncio
import logging
import threading
from typing import Any, Callable, Optional

from . import _loop, _native, _outcome
from .context import Context, _current
from .errors import TenureError
from .worker import Pool

log = logging.getLogger("tenure.worker")

#: How many tasks are taken at once.
_BATCH = 256


class AsyncioPool(Pool):
    """An asyncio task for each task. One that should wind down is cancelled in asyncio's way."""

    def __init__(self, handler: Callable[[Context], Any]) -> None:
        self._handler = handler
        self._running: dict[tuple[str, int], asyncio.Task[None]] = {}
        self._here: Optional[asyncio.Task[None]] = None

    def start(self, worker: _native.Worker) -> None:
        threading.Thread(target=lambda: asyncio.run(self._main(worker)), name="tenure-asyncio", daemon=True).start()

    def start_here(self, worker: _native.Worker) -> None:
        self._here = asyncio.ensure_future(self._main(worker))

    async def _main(self, worker: _native.Worker) -> None:
        interrupts = asyncio.ensure_future(self._interrupt(worker))
        try:
            while (tasks := await _loop.ask(lambda via: worker.take_many(_BATCH, None, via))) is not None:
                for task in tasks:
                    self._running[(task.id, task.attempt)] = asyncio.ensure_future(self._handle(task))
            if self._running:
                await asyncio.wait(list(self._running.values()))
        except TenureError as error:
            log.debug("the pool has ended: %s", error)
        finally:
            interrupts.cancel()

    async def _interrupt(self, worker: _native.Worker) -> None:
        while (told := await _loop.ask(lambda via: worker.next_interrupt(None, via))) is not None:
            running = self._running.get(told[:2])
            if running is not None:
                running.cancel()

    async def _handle(self, task: _native.Task) -> None:
        context = Context(task)
        _current.set(context)
        try:
            # An interrupt that came before this asyncio task was listed had nothing to cancel.
            context.check()
            try:
                result = self._handler(context)
                if asyncio.iscoroutine(result) or isinstance(result, asyncio.Future):
                    result = await result
            finally:
                context._flush()
        except asyncio.CancelledError as error:
            if not _outcome.interrupted(task):
                # The program ends its event loop under the task, which is no fault of the task.
                if _is_being_cancelled():
                    task.give_back("the event loop of the worker ended")
                else:
                    _outcome.raised(task, error)
        except BaseException as error:
            _outcome.raised(task, error)
        else:
            _outcome.returned(task, result)
        finally:
            self._running.pop((context.id, context.attempt), None)


def _is_being_cancelled() -> bool:
    """Whether the program cancels this asyncio task, rather than that its code raised ``CancelledError`` itself.
    Python tells since 3.11.
    """
    cancelling = getattr(asyncio.current_task(), "cancelling", None)
    return cancelling is not None and cancelling() > 0
