"""One event loop on a daemon thread of its own, for futures of programs that have no event loop."""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from typing import Any, Callable, Optional, TypeVar

from . import _loop, _process

T = TypeVar("T")

_lock = threading.Lock()
_loop_thread: Optional[tuple[int, asyncio.AbstractEventLoop]] = None


def loop() -> asyncio.AbstractEventLoop:
    """The loop of this process; the first call starts it."""
    global _lock, _loop_thread
    generation = _process.generation()
    if _loop_thread is not None and _loop_thread[0] == generation:
        return _loop_thread[1]
    if _loop_thread is not None:
        _lock = threading.Lock()
    with _lock:
        if _loop_thread is None or _loop_thread[0] != generation:
            made = asyncio.new_event_loop()
            threading.Thread(target=_run, args=(made,), name="tenure-futures", daemon=True).start()
            _loop_thread = (generation, made)
        return _loop_thread[1]


def _run(made: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(made)
    made.run_forever()


def future(request: Callable[[Any], Any], read: Callable[[Any], T]) -> concurrent.futures.Future[T]:
    """A future of the answer to a request. Cancelling it gives the request up."""

    async def ask() -> T:
        return read(await _loop.ask(request))

    return asyncio.run_coroutine_threadsafe(ask(), loop())
