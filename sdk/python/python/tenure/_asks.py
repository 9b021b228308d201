"""What the verbs of a client build on: one request, awaited or waited for."""

from __future__ import annotations

from typing import Any, Callable, TypeVar

from . import _native
from ._verbs import Ask

T = TypeVar("T")

#: Asks the native client something; without a port the caller waits.
Request = Callable[["_native.Client", "_native.Via"], Any]


class Asks:
    """For asyncio clients."""

    async def _ask(self, request: Request) -> Any:
        raise NotImplementedError

    async def _do(self, ask: Ask[T]) -> T:
        return ask.read(await self._ask(ask.request))


class SyncAsks:
    """For blocking clients."""

    def _ask(self, request: Request) -> Any:
        raise NotImplementedError

    def _do(self, ask: Ask[T]) -> T:
        return ask.read(self._ask(ask.request))
