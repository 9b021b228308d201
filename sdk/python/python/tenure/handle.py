"""Handles: a submitted task, and everything that can be done with it."""

from __future__ import annotations

import concurrent.futures
from collections.abc import AsyncIterator, Iterator
from typing import TYPE_CHECKING, Any, Callable, Generic, Optional, TypeVar, Union

from .errors import ResultTimeout, TaskCancelled
from .records import Accepted, Ended, Event, EventGap, LogChunk, TaskInfo
from .submission import Span

if TYPE_CHECKING:
    from .client import Client
    from .sync_client import SyncClient

T = TypeVar("T")

#: Turns the end of a task into its result, or raises what says why there is none.
Reader = Callable[[str, Ended], T]

_LAST = ("completed", "cancelled", "expired")


def read_bytes(task: str, ended: Ended) -> bytes:
    """The result as the worker sent it."""
    from ._failure import read_failure

    if ended.state == "completed":
        return ended.result
    if ended.state == "cancelled":
        raise TaskCancelled(f"task {task} was cancelled: {ended.message or 'no reason given'}", task=task)
    raise read_failure(task, ended)


def is_last(event: Union[Event, EventGap]) -> bool:
    """Whether a task has ended with this event."""
    if isinstance(event, EventGap):
        return False
    next_state = event.more.get("next")
    return (
        event.kind in _LAST
        or (event.kind == "failed" and next_state == "failed")
        or (event.kind == "crashed" and next_state in ("failed", "cancelled"))
    )


class _Handle(Generic[T]):
    def __init__(self, task: str, accepted: Optional[Accepted], reader: Reader[T]) -> None:
        #: The task's id.
        self.id = task
        #: What the broker said to its submission, if this program submitted it.
        self.accepted = accepted
        self._reader = reader

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.id}>"

    def _timed_out(self, timeout: Optional[Span]) -> ResultTimeout:
        return ResultTimeout(f"timed out after {timeout} s waiting for task {self.id}; the task keeps running")


class TaskHandle(_Handle[T]):
    """A task, for asyncio programs."""

    def __init__(self, client: Client, task: str, accepted: Optional[Accepted], reader: Reader[T]) -> None:
        super().__init__(task, accepted, reader)
        self._client = client

    async def wait(self, timeout: Optional[Span] = None) -> Ended:
        """Waits until the task has ended, however it ends."""
        ended = await self._client.wait(self.id, timeout)
        if ended is None:
            raise self._timed_out(timeout)
        return ended

    async def result(self, timeout: Optional[Span] = None) -> T:
        """Waits for the result. A failed task raises :class:`TaskFailed`, a cancelled one :class:`TaskCancelled`."""
        return self._reader(self.id, await self.wait(timeout))

    def __await__(self) -> Any:
        return self.result().__await__()

    async def status(self) -> TaskInfo:
        """The task as the broker knows it."""
        return await self._client.show(self.id)

    async def cancel(self, reason: Optional[str] = None) -> None:
        """Cancels the task."""
        await self._client.cancel(self.id, reason)

    async def pause(self, reason: Optional[str] = None, *, terminate: bool = False) -> None:
        """Pauses the task until it is resumed. With ``terminate`` attempts end that could stop in place."""
        await self._client.pause(self.id, reason, terminate=terminate)

    async def resume(self) -> None:
        """Lets a paused task run again."""
        await self._client.resume(self.id)

    def logs(self, *, follow: bool = False) -> AsyncIterator[LogChunk]:
        """What the task has printed; with ``follow``, until it has ended."""
        return self._client.logs(self.id, follow=follow)

    async def events(self, from_: Optional[int] = 1) -> AsyncIterator[Union[Event, EventGap]]:
        """Everything that happens to the task, from its submission on, until it has ended."""
        async with await self._client.watch(task=self.id, from_=from_) as watch:
            async for event in watch:
                yield event
                if is_last(event):
                    return


class SyncTaskHandle(_Handle[T]):
    """A task, for blocking programs."""

    def __init__(self, client: SyncClient, task: str, accepted: Optional[Accepted], reader: Reader[T]) -> None:
        super().__init__(task, accepted, reader)
        self._client = client

    def wait(self, timeout: Optional[Span] = None) -> Ended:
        """Waits until the task has ended, however it ends."""
        ended = self._client.wait(self.id, timeout)
        if ended is None:
            raise self._timed_out(timeout)
        return ended

    def result(self, timeout: Optional[Span] = None) -> T:
        """Waits for the result. A failed task raises :class:`TaskFailed`, a cancelled one :class:`TaskCancelled`."""
        return self._reader(self.id, self.wait(timeout))

    def future(self) -> concurrent.futures.Future[T]:
        """A future of the result, for ``concurrent.futures.wait``. Cancelling it does not cancel the task."""
        return self._client.future_of(self)

    def status(self) -> TaskInfo:
        """The task as the broker knows it."""
        return self._client.show(self.id)

    def cancel(self, reason: Optional[str] = None) -> None:
        """Cancels the task."""
        self._client.cancel(self.id, reason)

    def pause(self, reason: Optional[str] = None, *, terminate: bool = False) -> None:
        """Pauses the task until it is resumed. With ``terminate`` attempts end that could stop in place."""
        self._client.pause(self.id, reason, terminate=terminate)

    def resume(self) -> None:
        """Lets a paused task run again."""
        self._client.resume(self.id)

    def logs(self, *, follow: bool = False) -> Iterator[LogChunk]:
        """What the task has printed; with ``follow``, until it has ended."""
        return self._client.logs(self.id, follow=follow)

    def events(self, from_: Optional[int] = 1) -> Iterator[Union[Event, EventGap]]:
        """Everything that happens to the task, from its submission on, until it has ended."""
        with self._client.watch(task=self.id, from_=from_) as watch:
            for event in watch:
                yield event
                if is_last(event):
                    return
