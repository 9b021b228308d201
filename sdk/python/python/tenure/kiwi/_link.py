"""What the parts of a communicator share: its connection, its encoding and its threads."""

from __future__ import annotations

import asyncio
import hashlib
import inspect
import threading
import time
import uuid
from concurrent.futures import Future
from typing import Any, Callable, Optional

import kiwipy

from .. import _background, _native, codec
from .._settings import Settings
from .._text import text_of
from ..errors import TenureError
from ._chain import End
from ._dispatcher import Dispatcher

#: The broker takes no longer names.
NAME_BYTES_MAX = 255

#: How long a request waits for a broker that is away.
AWAY_SECONDS = 0.1

Encoder = Callable[[Any], Any]
Decoder = Callable[[bytes], Any]


class Link:
    """The connection of one communicator."""

    def __init__(
        self, settings: Settings, scope: str, timeout: float, encoder: Encoder, decoder: Decoder, communicator: Any
    ) -> None:
        self.settings = settings
        self.scope = scope
        self.timeout = timeout
        self.communicator = communicator
        self.closed = False
        self.id = uuid.uuid4().hex
        self._encoder = encoder
        self._decoder = decoder
        self.client: _native.Client = settings.connect()  # type: ignore[assignment]
        self.dispatcher = Dispatcher(f"tenure-kiwi-{self.id[:6]}")

    def ensure_open(self) -> None:
        """Raises if the communicator was closed."""
        if self.closed:
            raise kiwipy.CommunicatorClosed()

    def is_connected(self) -> bool:
        """Whether the broker hears this communicator at this moment."""
        try:
            return self.client.is_connected()
        except TenureError:
            return False

    def wait(self, known: threading.Event) -> None:
        """Waits until the broker knows something, as long as it hears this communicator."""
        deadline = time.monotonic() + self.timeout
        while not known.wait(AWAY_SECONDS) and time.monotonic() < deadline:
            if not self.is_connected():
                return

    def address(self, kind: str, name: Any) -> str:
        """The address of a subscriber. Identifiers are compared as texts: AiiDA calls 17 what subscribed as "17"."""
        return short_name(f"{self.scope}.{kind}.{name}")

    def encode(self, body: Any) -> bytes:
        """The bytes of what the program sends."""
        encoded = self._encoder(body)
        return encoded.encode() if isinstance(encoded, str) else bytes(encoded)

    def decode(self, data: bytes) -> Any:
        """What the program at the other side sent."""
        return self._decoder(data)

    def encode_end(self, end: End) -> dict[str, Any]:
        """How a chain ended, for the other side. What cannot be encoded becomes an exception there."""
        if end.kind == "result":
            try:
                return {"kind": "result", "value": self.encode(end.value)}
            except Exception as error:
                return {"kind": "exception", "value": f"the result cannot be encoded: {text_of(error)}"}
        if end.kind == "exception":
            return {"kind": "exception", "value": text_of(end.value)}
        return {"kind": end.kind}

    def decode_end(self, told: dict[str, Any]) -> End:
        """How a chain at the other side ended."""
        if told["kind"] != "result":
            return End(told["kind"], told.get("value"))
        try:
            return End("result", self.decode(told["value"]))
        except Exception as error:
            return End("exception", f"the result cannot be decoded: {error}")


def short_name(name: str) -> str:
    """A name as the broker takes it: what is too long is cut and ends with a hash."""
    if len(name.encode()) <= NAME_BYTES_MAX:
        return name
    digest = hashlib.sha256(name.encode()).hexdigest()[:32]
    return name.encode()[: NAME_BYTES_MAX - 33].decode(errors="ignore") + "~" + digest


def pack(told: dict[str, Any]) -> bytes:
    """A message between communicators."""
    return codec.encode(told)


def unpack(data: bytes) -> dict[str, Any]:
    """A message of another communicator."""
    told = codec.decode(data)
    if not isinstance(told, dict):
        raise ValueError("this is not a message of a communicator")
    return told


def is_final(error: Optional[BaseException]) -> bool:
    """Whether a request that failed like this is not worth repeating."""
    return isinstance(error, TenureError) and not error.transient


def run(subscriber: Callable[..., Any], *arguments: Any) -> Any:
    """Calls a subscriber. What a coroutine will return becomes a future."""
    loop = _loop_of(subscriber)
    if loop is not None and loop.is_running():
        return _run_on(loop, subscriber, *arguments)
    result = subscriber(*arguments)
    if inspect.iscoroutine(result):
        return asyncio.run_coroutine_threadsafe(result, _background.loop())
    return result


def _loop_of(subscriber: Callable[..., Any]) -> Optional[asyncio.AbstractEventLoop]:
    """The event loop on which plumpy runs a subscriber.

    plumpy schedules the subscriber on its loop and adds a callback to its asyncio future afterwards, from the thread of
    the communicator. If the subscriber ends before that, the callback is lost on a loop that sleeps. Called on the loop
    itself, the callback is there first.
    """
    if getattr(subscriber, "__module__", None) != "plumpy.communications":
        return None
    code, cells = getattr(subscriber, "__code__", None), getattr(subscriber, "__closure__", None)
    if code is None or cells is None or "loop" not in code.co_freevars:
        return None
    loop = cells[code.co_freevars.index("loop")].cell_contents
    return loop if isinstance(loop, asyncio.AbstractEventLoop) else None


def _run_on(loop: asyncio.AbstractEventLoop, subscriber: Callable[..., Any], *arguments: Any) -> Future[Any]:
    called: Future[Any] = Future()

    def call() -> None:
        try:
            result = subscriber(*arguments)
        except BaseException as error:
            called.set_exception(error)
            return
        if isinstance(result, Future):
            kiwipy.chain(result, called)
        else:
            called.set_result(result)

    try:
        loop.call_soon_threadsafe(call)
    except RuntimeError as error:
        # The loop was closed: the program ends, and another one gets the task.
        raise kiwipy.CancelledError() from error
    return called
