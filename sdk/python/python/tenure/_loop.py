"""Answers of the native client for an event loop: one file descriptor, one wake-up for any number of answers."""

from __future__ import annotations

import asyncio
import weakref
from typing import Any, Callable, Optional

from . import _native, _process
from .errors import Closed

#: A request to the native client. It gets the place where its answer goes; without one it waits.
Request = Callable[[Any], Any]


class LoopPort:
    """The port of one event loop, and who waits for which answer."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        # Weakly, so that a loop that is done with can go; it is the key of the table of ports.
        self._loop = weakref.ref(loop)
        self._port = _native.Port()
        self._generation = _process.generation()
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._next = 0
        loop.add_reader(self._port.fileno(), self._drain)

    def serves(self, loop: asyncio.AbstractEventLoop) -> bool:
        """Whether this port belongs to this loop in this process."""
        return self._loop() is loop and self._generation == _process.generation()

    async def ask(self, request: Request) -> Any:
        """Makes a request and waits for its answer. A cancelled wait gives the request up."""
        self._next += 1
        token = self._next
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._waiting[token] = future
        try:
            request((self._port, token))
            return await future
        except BaseException:
            if self._waiting.pop(token, None) is not None:
                self._port.forget(token)
            raise

    def _drain(self) -> None:
        for token, value, error in self._port.drain():
            future = self._waiting.pop(token, None)
            if future is None or future.done():
                continue
            if error is not None:
                future.set_exception(error)
            else:
                future.set_result(value)


_ports: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, LoopPort] = weakref.WeakKeyDictionary()


def port() -> LoopPort:
    """The port of the running event loop."""
    loop = asyncio.get_running_loop()
    found = _ports.get(loop)
    if found is None or not found.serves(loop):
        if loop.is_closed():
            raise Closed("the event loop is closed")
        found = _ports[loop] = LoopPort(loop)
    return found


async def ask(request: Request) -> Any:
    """Makes a request from the running event loop."""
    return await port().ask(request)


class Taking:
    """Takes from a stream. What came while its taker gave up waiting (``asyncio.wait_for``) goes to the next one."""

    def __init__(self, request: Request) -> None:
        self._request = request
        self._asking: Optional[asyncio.Future[Any]] = None

    async def take(self) -> Any:
        """The answer to the request, once for each answer."""
        asking = self._asking
        if asking is None or asking.get_loop() is not asyncio.get_running_loop():
            asking = self._asking = asyncio.ensure_future(ask(self._request))
        try:
            answer = await asyncio.shield(asking)
        except BaseException:
            # Only the taker is cancelled: the answer, even one that is there by now, waits for the next.
            if asking.done() and (asking.cancelled() or asking.exception() is not None):
                self._asking = None
            raise
        self._asking = None
        return answer
