"""Calls between programs by address, and broadcasts."""

from __future__ import annotations

from typing import Any

from . import _loop, _native
from .errors import TenureError
from .submission import Body, to_bytes


class CallFailed(TenureError):
    """The receiver of a call answered with an error. ``body`` is the error."""

    def __init__(self, to: str, body: bytes):
        super().__init__(f"the call to {to!r} failed: {body.decode(errors='replace')}")
        self.to = to
        self.body = body

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self), (self.to, self.body), self.__dict__)


class CallCancelled(TenureError):
    """The receiver of a call gave it up."""


class _Call:
    def __init__(self, native: _native.Call) -> None:
        self._native = native

    @property
    def to(self) -> str:
        """The address that was called."""
        return self._native.to

    @property
    def sender(self) -> str:
        """The identity of the caller."""
        return self._native.sender

    @property
    def body(self) -> bytes:
        return self._native.body

    @property
    def dropped(self) -> bool:
        """Whether the caller does not wait for the answer any more."""
        return self._native.is_dropped()


class Call(_Call):
    """A call to answer, once. If it is dropped without an answer, the caller gets an error."""

    async def answer(self, body: Body = b"") -> None:
        """Answers."""
        await self._say("result", body)

    async def error(self, body: Body = b"") -> None:
        """Answers with an error."""
        await self._say("error", body)

    async def cancel(self) -> None:
        """Gives the call up."""
        await self._say("cancelled", b"")

    async def pending(self) -> None:
        """Tells the caller that the answer will take a while."""
        await self._say("pending", b"")

    async def _say(self, outcome: str, body: Body) -> None:
        said = to_bytes(body)
        await _loop.ask(lambda via: self._native.answer(outcome, said, via))


class SyncCall(_Call):
    """A call to answer, once. If it is dropped without an answer, the caller gets an error."""

    def answer(self, body: Body = b"") -> None:
        """Answers."""
        self._native.answer("result", to_bytes(body))

    def error(self, body: Body = b"") -> None:
        """Answers with an error."""
        self._native.answer("error", to_bytes(body))

    def cancel(self) -> None:
        """Gives the call up."""
        self._native.answer("cancelled", b"")

    def pending(self) -> None:
        """Tells the caller that the answer will take a while."""
        self._native.answer("pending", b"")
