"""Futures of futures, here and at the other side.

A subscriber may return a future that resolves to another future, and so on. :class:`Chain` follows such a result on the
side that makes it; :class:`Mirror` rebuilds it on the side that waits for it.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import threading
from dataclasses import dataclass
from typing import Any, Callable, Optional

import kiwipy

Future = concurrent.futures.Future
#: What is raised for work that was cancelled: the second is no ``Exception``, and no subclass of the first.
CANCELLED = (concurrent.futures.CancelledError, asyncio.CancelledError)

#: How long a chain may take before its waiter learns how deep it is by now. A chain that ends sooner is sent at once,
#: as a whole.
PENDING_AFTER = 0.1


@dataclass(frozen=True)
class End:
    """How a chain ended: ``result``, ``exception`` or ``cancelled``."""

    kind: str
    value: Any = None


class Chain:
    """Follows a result through its futures to its end.

    ``changed`` is called on every step and at the end, from the thread that resolves the future.
    """

    def __init__(self, value: Any, changed: Callable[[Chain], None]) -> None:
        #: How many futures were met by now.
        self.depth = 0
        self.end: Optional[End] = None
        self._changed = changed
        self._follow(value)

    def _follow(self, value: Any) -> None:
        while isinstance(value, Future):
            self.depth += 1
            if not value.done():
                self._changed(self)
                value.add_done_callback(self._step)
                return
            value = self._take(value)
            if self.end is not None:
                self._changed(self)
                return
        self.end = End("result", value)
        self._changed(self)

    def _step(self, future: Future[Any]) -> None:
        value = self._take(future)
        if self.end is not None:
            self._changed(self)
        else:
            self._follow(value)

    def _take(self, future: Future[Any]) -> Any:
        try:
            return future.result()
        except CANCELLED:
            self.end = End("cancelled")
        except BaseException as error:
            self.end = End("exception", error)
        return None


class Mirror:
    """A future that becomes what a chain at the other side becomes."""

    def __init__(self) -> None:
        self.root: Future[Any] = Future()
        self._last = self.root
        self._depth = 0
        self._lock = threading.Lock()
        self._ended = False

    @property
    def depth(self) -> int:
        """How deep the chain is known to be."""
        return self._depth

    def advance(self, depth: int) -> None:
        """The chain has this many futures by now."""
        with self._lock:
            if not self._ended:
                self._advance(depth)

    def finish(self, depth: int, end: End) -> None:
        """The chain has ended."""
        with self._lock:
            if self._ended:
                return
            self._ended = True
            self._advance(depth)
            last = self._last
        if end.kind == "result":
            _settle(last.set_result, end.value)
        elif end.kind == "cancelled":
            if last.cancel():
                last.set_running_or_notify_cancel()
        else:
            error = end.value
            if not isinstance(error, BaseException):
                error = kiwipy.RemoteException(error)
            _settle(last.set_exception, error)

    def _advance(self, depth: int) -> None:
        while self._depth < depth:
            following: Future[Any] = Future()
            self._depth += 1
            before, self._last = self._last, following
            _settle(before.set_result, following)


def _settle(how: Callable[[Any], None], value: Any) -> None:
    # The program may have cancelled it.
    with contextlib.suppress(concurrent.futures.InvalidStateError):
        how(value)
