"""The tasks of a ``map``: one array, or a few if their bodies do not fit into one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from typing import Any, Generic, Optional, TypeVar

from .arrays import ArrayHandle, SyncArrayHandle, read_results
from .client import Client
from .errors import BadSetting, WrongState
from .handle import Reader, SyncTaskHandle, TaskHandle
from .records import StateCounts
from .submission import Span
from .sync_client import SyncClient

R = TypeVar("R")
A = TypeVar("A", bound=Any)


class _Batch(Generic[R, A]):
    def __init__(self, arrays: list[A], reader: Reader[R]) -> None:
        #: The arrays that hold the tasks: one, unless the values take more than 16 MB.
        self.arrays = arrays
        self._reader = reader

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {len(self)} tasks>"

    def __len__(self) -> int:
        return sum(len(array) for array in self.arrays)

    @property
    def ids(self) -> list[str]:
        """The ids of the tasks, in the order of their values."""
        return [task for array in self.arrays for task in array.ids]

    def _at(self, place: int) -> tuple[A, int]:
        size = len(self)
        if not -size <= place < size:
            raise IndexError(f"index {place} is out of range: there are {size} tasks")
        place %= size
        for array in self.arrays:
            if place < len(array):
                return array, place
            place -= len(array)
        raise IndexError(place)

    def _only(self) -> Optional[A]:
        if len(self.arrays) > 1:
            raise BadSetting(
                f"these tasks take {len(self.arrays)} arrays, because their arguments have more than 16 MB: limit them "
                "by a tag, or put the data elsewhere and map references"
            )
        return self.arrays[0] if self.arrays else None


def _sum(counts: list[StateCounts]) -> StateCounts:
    return StateCounts(**{one.name: sum(getattr(each, one.name) for each in counts) for one in fields(StateCounts)})


class Batch(_Batch[R, "SyncArrayHandle[R]"]):
    """The tasks of a :meth:`Task.map`, in the order of their values."""

    def __init__(self, client: SyncClient, arrays: list[SyncArrayHandle[R]], reader: Reader[R]) -> None:
        super().__init__(arrays, reader)
        self._client = client

    def __iter__(self) -> Iterator[SyncTaskHandle[R]]:
        return (task for array in self.arrays for task in array)

    def __getitem__(self, place: int) -> SyncTaskHandle[R]:
        array, place = self._at(place)
        return array[place]

    def results(self, timeout: Optional[Span] = None, *, return_exceptions: bool = False) -> list[R]:
        """Waits for all results, in order. The first task that did not complete raises, unless its exception is wanted
        in its place.
        """
        ids = self.ids
        return read_results(ids, self._reader, self._client.wait_all(ids, timeout), timeout, return_exceptions)

    def counts(self) -> StateCounts:
        """How many tasks are in each state."""
        return _sum([array.counts() for array in self.arrays])

    def wait(self, timeout: Optional[Span] = None) -> StateCounts:
        """Waits until all have ended, however they end. Returns how many ended in which way."""
        return _sum([array.wait(timeout).counts for array in self.arrays])

    def limit(self, limit: Optional[int]) -> None:
        """Sets how many of them workers may hold at once; ``None`` for any number."""
        array = self._only()
        if array is not None:
            array.limit(limit)

    def cancel(self, reason: Optional[str] = None) -> None:
        """Cancels those that have not ended."""
        for array in self.arrays:
            try:
                array.cancel(reason)
            except WrongState:
                # All of its tasks have ended.
                continue


class AsyncBatch(_Batch[R, "ArrayHandle[R]"]):
    """The tasks of a :meth:`Task.map_async`, in the order of their values."""

    def __init__(self, client: Client, arrays: list[ArrayHandle[R]], reader: Reader[R]) -> None:
        super().__init__(arrays, reader)
        self._client = client

    def __iter__(self) -> Iterator[TaskHandle[R]]:
        return (task for array in self.arrays for task in array)

    def __getitem__(self, place: int) -> TaskHandle[R]:
        array, place = self._at(place)
        return array[place]

    async def results(self, timeout: Optional[Span] = None, *, return_exceptions: bool = False) -> list[R]:
        """Waits for all results, in order. The first task that did not complete raises, unless its exception is wanted
        in its place.
        """
        ids = self.ids
        return read_results(ids, self._reader, await self._client.wait_all(ids, timeout), timeout, return_exceptions)

    async def counts(self) -> StateCounts:
        """How many tasks are in each state."""
        return _sum([await array.counts() for array in self.arrays])

    async def wait(self, timeout: Optional[Span] = None) -> StateCounts:
        """Waits until all have ended, however they end. Returns how many ended in which way."""
        return _sum([(await array.wait(timeout)).counts for array in self.arrays])

    async def limit(self, limit: Optional[int]) -> None:
        """Sets how many of them workers may hold at once; ``None`` for any number."""
        array = self._only()
        if array is not None:
            await array.limit(limit)

    async def cancel(self, reason: Optional[str] = None) -> None:
        """Cancels those that have not ended."""
        for array in self.arrays:
            try:
                await array.cancel(reason)
            except WrongState:
                # All of its tasks have ended.
                continue
