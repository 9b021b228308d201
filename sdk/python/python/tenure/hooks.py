"""Hooks: where the broker sends events, and what it could not deliver."""

from __future__ import annotations

from typing import Any, Optional

from . import _native
from ._asks import Asks, SyncAsks
from ._verbs import Ask
from .records import HookInfo, UndeliveredEvent, read_list


def _list() -> Ask[list[HookInfo]]:
    return Ask(lambda client, via: client.look("hooks", via), lambda told: read_list(HookInfo, told))


def _undelivered(hook: str) -> Ask[list[UndeliveredEvent]]:
    def read(told: list[Any]) -> list[UndeliveredEvent]:
        return [UndeliveredEvent.of(one) for one in told]

    return Ask(lambda client, via: _native.undelivered(client, hook, via), read)


def _redeliver(hook: str, event: Optional[int]) -> Ask[int]:
    return Ask(lambda client, via: _native.redeliver(client, hook, event, via), int)


class HookVerbs(Asks):
    """The verbs of hooks, for asyncio clients."""

    async def hooks(self) -> list[HookInfo]:
        """Returns the hooks of the namespace and the state of their deliveries."""
        return await self._do(_list())

    async def undelivered(self, hook: str) -> list[UndeliveredEvent]:
        """The events that a hook has given up, oldest first."""
        return await self._do(_undelivered(hook))

    async def redeliver(self, hook: str, event: Optional[int] = None) -> int:
        """Sends an event again that a hook has given up, or all of them. Returns how many."""
        return await self._do(_redeliver(hook, event))


class SyncHookVerbs(SyncAsks):
    """The verbs of hooks, for blocking clients."""

    def hooks(self) -> list[HookInfo]:
        """Returns the hooks of the namespace and the state of their deliveries."""
        return self._do(_list())

    def undelivered(self, hook: str) -> list[UndeliveredEvent]:
        """The events that a hook has given up, oldest first."""
        return self._do(_undelivered(hook))

    def redeliver(self, hook: str, event: Optional[int] = None) -> int:
        """Sends an event again that a hook has given up, or all of them. Returns how many."""
        return self._do(_redeliver(hook, event))
