"""Streams: events, calls and broadcasts, one after another, through lost connections."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import AsyncIterator, Iterator
from typing import Any, Callable, Generic, Optional, TypeVar, Union

from . import _loop
from .errors import Closed
from .records import Broadcast, Event, EventGap, Missed, read
from .talk import Call, SyncCall

T = TypeVar("T")


class _Stream(Generic[T]):
    def __init__(self, native: Any, decode: Callable[[Any], T]) -> None:
        self._native = native
        self._decode = decode
        self._ready: deque[T] = deque()
        self._ended = False

    def close(self) -> None:
        """Ends the stream. A thread or coroutine that waits for it stops waiting."""
        self._ended = True
        self._native.close()

    def _take(self, batch: Optional[list[Any]]) -> None:
        if batch is None:
            self._ended = True
        else:
            self._ready.extend(map(self._decode, batch))


class Stream(_Stream[T], AsyncIterator[T]):
    """An async iterator, and an async context manager that ends it. Nothing is lost if a wait for it is cancelled."""

    def __init__(self, native: Any, decode: Callable[[Any], T]) -> None:
        super().__init__(native, decode)
        self._taking = _loop.Taking(lambda via: native.next(None, via))

    async def __anext__(self) -> T:
        while not self._ready:
            if self._ended:
                raise StopAsyncIteration
            self._take(await self._taking.take())
        return self._ready.popleft()

    async def __aenter__(self) -> Stream[T]:
        return self

    async def __aexit__(self, *_: Any) -> None:
        self.close()


class SyncStream(_Stream[T], Iterator[T]):
    """An iterator, and a context manager that ends it."""

    def __next__(self) -> T:
        while not self._ready:
            if self._ended:
                raise StopIteration
            self._wait(None)
        return self._ready.popleft()

    def _wait(self, timeout_ms: Optional[int]) -> None:
        try:
            self._take(self._native.next(timeout_ms))
        except Closed:
            self._ended = True

    def next(self, timeout: Optional[float]) -> Optional[T]:
        """The next one; nothing when the time is up or the stream is over."""
        if not self._ready and not self._ended:
            self._wait(None if timeout is None else max(0, int(timeout * 1000)))
        return self._ready.popleft() if self._ready else None

    def __enter__(self) -> SyncStream[T]:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()


def watched(told: Any) -> Union[Event, EventGap]:
    """An event, or the gap before it."""
    return read(Event, json.loads(told)) if isinstance(told, str) else EventGap(*told)


def heard(told: Any) -> Union[Broadcast, Missed]:
    """A broadcast, or how many were missed."""
    if isinstance(told, int):
        return Missed(told)
    subject, body, sender, correlation = told
    return Broadcast(body, subject, sender, correlation)


#: What a client hands out.
Watch = Stream[Union[Event, EventGap]]
SyncWatch = SyncStream[Union[Event, EventGap]]
Listener = Stream[Call]
SyncListener = SyncStream[SyncCall]
BroadcastReceiver = Stream[Union[Broadcast, Missed]]
SyncBroadcastReceiver = SyncStream[Union[Broadcast, Missed]]
