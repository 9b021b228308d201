"""What tasks print while they run. The broker keeps it for a while."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, replace
from typing import Optional

from . import _native, _verbs
from ._asks import Asks, SyncAsks
from ._verbs import Ask
from .records import LogChunk

#: How long a reader that follows a task waits before it looks again: at first, and at most.
LOOK_AFTER = 0.1
LOOK_AFTER_MAX = 1.0


@dataclass(frozen=True)
class LogPage:
    """Some of what a task printed, in the order in which it came."""

    chunks: list[LogChunk]
    #: Ask for what follows with this.
    next: int
    #: There is more already.
    more: bool


def _read(task: str, after: int) -> Ask[LogPage]:
    return Ask(
        lambda client, via: _native.read_logs(client, task, after, via),
        lambda told: LogPage([LogChunk.of(piece) for piece in told[0]], told[1], told[2]),
    )


class _Printed:
    """How far the streams of each attempt have been read."""

    def __init__(self) -> None:
        self._ends: dict[tuple[int, str], int] = {}

    def fresh(self, chunk: LogChunk) -> Optional[LogChunk]:
        """What is new in a piece. A worker that lost its connection may send one twice."""
        key = (chunk.attempt, chunk.stream)
        known = self._ends.get(key, 0)
        end = chunk.offset + len(chunk.data)
        if end <= known:
            return None
        self._ends[key] = end
        if chunk.offset >= known:
            return chunk
        return replace(chunk, offset=known, data=chunk.data[known - chunk.offset :])


class LogVerbs(Asks):
    """The verb of logs, for asyncio clients."""

    async def logs(self, task: str, *, follow: bool = False) -> AsyncIterator[LogChunk]:
        """What a task has printed, oldest first. With ``follow`` it goes on until the task has ended."""
        printed, after, pause = _Printed(), 0, LOOK_AFTER
        while True:
            # Asked first: what is printed before the end is there when the end is known.
            ended = not follow or (await self._do(_verbs.show(task))).ended
            page = await self._do(_read(task, after))
            after = page.next
            for chunk in page.chunks:
                fresh = printed.fresh(chunk)
                if fresh is not None:
                    yield fresh
            if page.more:
                continue
            if ended:
                return
            pause = LOOK_AFTER if page.chunks else min(pause * 2, LOOK_AFTER_MAX)
            await asyncio.sleep(pause)


class SyncLogVerbs(SyncAsks):
    """The verb of logs, for blocking clients."""

    def logs(self, task: str, *, follow: bool = False) -> Iterator[LogChunk]:
        """What a task has printed, oldest first. With ``follow`` it goes on until the task has ended.

        >>> def handler(context):
        ...     print("half way", file=context.stdout)
        >>> from tenure import Worker
        >>> with Worker(handler, queues=["talkative"], address=broker.address), SyncClient(broker.address) as client:
        ...     task = client.submit("talkative")
        ...     "".join(chunk.text for chunk in client.logs(task.id, follow=True))
        'half way\\n'
        """
        printed, after, pause = _Printed(), 0, LOOK_AFTER
        while True:
            # Asked first: what is printed before the end is there when the end is known.
            ended = not follow or self._do(_verbs.show(task)).ended
            page = self._do(_read(task, after))
            after = page.next
            for chunk in page.chunks:
                fresh = printed.fresh(chunk)
                if fresh is not None:
                    yield fresh
            if page.more:
                continue
            if ended:
                return
            pause = LOOK_AFTER if page.chunks else min(pause * 2, LOOK_AFTER_MAX)
            time.sleep(pause)
