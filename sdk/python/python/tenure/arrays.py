"""Arrays: many tasks that are submitted, shown, limited, waited for and cancelled as one."""

from __future__ import annotations

import re
import uuid
from collections.abc import AsyncIterator, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Optional, TypeVar

from . import _native
from ._asks import Asks, SyncAsks
from ._verbs import Ask, _nothing
from .errors import BadSetting, ResultTimeout, TenureError
from .handle import Reader, SyncTaskHandle, TaskHandle, read_bytes
from .records import ArrayInfo, Ended, StateCounts, Why, read_json, read_list
from .submission import Body, Span, Submission, maybe_millis, seconds, to_bytes

if TYPE_CHECKING:
    from .client import Client
    from .sync_client import SyncClient

T = TypeVar("T")

#: The most elements of an array, and the most bytes of their bodies together.
SIZE_MAX = 1_000_000
BODIES_BYTES_MAX = 16 << 20
#: What a body takes besides its bytes.
BODY_OVERHEAD = 5
#: No map takes more arrays: the broker keeps no more.
PARTS_MAX = 100_000


@dataclass(frozen=True)
class ArrayAccepted:
    """The broker's answer to the submission of an array."""

    id: str
    size: int
    state: str
    #: An array of this name was there already, and this is it.
    known: bool
    #: Why its elements cannot be handed out yet, if no worker can take them.
    unserved: Optional[Why] = None

    @classmethod
    def of(cls, told: tuple[str, int, str, bool, Optional[str]]) -> ArrayAccepted:
        array, size, state, known, unserved = told
        return cls(array, size, state, known, read_json(Why, unserved) if unserved else None)


@dataclass(frozen=True)
class ArraySubmission:
    """An array to submit: a submission for all elements, and either their number or a body for each.

    >>> ArraySubmission(Submission("sums"), size=400, first=1, limit=20).count
    400
    >>> ArraySubmission(Submission("images"), bodies=["a.tif", "b.tif"]).count
    2
    """

    submission: Submission
    size: Optional[int] = None
    bodies: Optional[list[Body]] = None
    #: The index of the first element, and the distance to the next one.
    first: int = 0
    step: int = 1
    #: How many elements workers may hold at once.
    limit: Optional[int] = None

    @property
    def count(self) -> int:
        """How many elements it has."""
        if (self.size is None) == (self.bodies is None):
            raise BadSetting("an array has either a size or a list of bodies: pass one of them")
        return len(self.bodies) if self.bodies is not None else self.size or 0

    def ask(self) -> Ask[ArrayAccepted]:
        """The request."""
        indexes = (_number("size", self.count), _number("first", self.first), _number("step", self.step))
        bodies = None if self.bodies is None else [to_bytes(body) for body in self.bodies]
        said, limit = self.submission.said(), self.limit
        if bodies is not None and said["body"]:
            raise BadSetting("the elements have bodies of their own: leave out the body that they would share")
        return Ask(
            lambda client, via: _native.submit_array(client, said, indexes, bodies, limit, via), ArrayAccepted.of
        )


def _number(what: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 1 << 32:
        raise BadSetting(f"{what} is {value!r}: pass a number from 0 to 4294967295")
    return value


def _show(array: str) -> Ask[ArrayInfo]:
    return Ask(lambda client, via: _native.show_array(client, array, via), lambda told: read_json(ArrayInfo, told))


def _find(name: str) -> Ask[ArrayInfo]:
    return Ask(lambda client, via: _native.find_array(client, name, via), lambda told: read_json(ArrayInfo, told))


def _list(limit: int) -> Ask[list[ArrayInfo]]:
    return Ask(lambda client, via: _native.list_arrays(client, limit, via), lambda told: read_list(ArrayInfo, told))


def _limit(array: str, limit: Optional[int]) -> Ask[None]:
    return Ask(lambda client, via: _native.limit_array(client, array, limit, via), _nothing)


def _wait(array: str, timeout: Optional[Span]) -> Ask[ArrayInfo]:
    limit = maybe_millis(timeout)
    return Ask(
        lambda client, via: _native.wait_array(client, array, limit, via), lambda told: read_json(ArrayInfo, told)
    )


class _ArrayHandle(Generic[T]):
    def __init__(self, array: str, size: int, indexes: tuple[int, int], reader: Reader[T]) -> None:
        #: The array's id. It takes the place of a task's in ``cancel``, ``explain``, ``watch`` and ``after``.
        self.id = array
        self._size = size
        self._first, self._step = indexes
        self._reader = reader
        self._number = uuid.UUID(array).int + 1

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.id}, {self._size} elements>"

    def __len__(self) -> int:
        return self._size

    @property
    def ids(self) -> list[str]:
        """The ids of the elements, in the order of their indexes."""
        return [str(uuid.UUID(int=self._number + place)) for place in range(self._size)]

    def _id_at(self, place: int) -> str:
        if not -self._size <= place < self._size:
            raise IndexError(f"index {place} is out of range: the array has {self._size} elements")
        return str(uuid.UUID(int=self._number + place % self._size))

    def _id_of(self, index: int) -> str:
        place, rest = divmod(index - self._first, self._step)
        if rest or not 0 <= place < self._size:
            last = self._first + (self._size - 1) * self._step
            raise IndexError(f"the indexes of the array are {self._first} to {last} by {self._step}, not {index}")
        return self._id_at(place)

    def _check(self, info: ArrayInfo, timeout: Optional[Span]) -> ArrayInfo:
        if not info.ended:
            raise ResultTimeout(f"timed out after {timeout} s waiting for array {self.id}; the array keeps running")
        return info


class ArrayHandle(_ArrayHandle[T]):
    """An array, for asyncio programs."""

    def __init__(self, client: Client, array: str, size: int, indexes: tuple[int, int], reader: Reader[T]) -> None:
        super().__init__(array, size, indexes, reader)
        self._client = client

    def __getitem__(self, place: int) -> TaskHandle[T]:
        """The element in this place."""
        return TaskHandle(self._client, self._id_at(place), None, self._reader)

    def __iter__(self) -> Iterator[TaskHandle[T]]:
        return (self[place] for place in range(len(self)))

    def element(self, index: int) -> TaskHandle[T]:
        """The element with this index."""
        return TaskHandle(self._client, self._id_of(index), None, self._reader)

    async def status(self) -> ArrayInfo:
        """The array as the broker knows it."""
        return await self._client.show_array(self.id)

    async def counts(self) -> StateCounts:
        """How many elements are in each state."""
        return (await self.status()).counts

    async def wait(self, timeout: Optional[Span] = None) -> ArrayInfo:
        """Waits until all elements have ended, however they end."""
        return self._check(await self._client.wait_array(self.id, timeout), timeout)

    async def results(self, timeout: Optional[Span] = None, *, return_exceptions: bool = False) -> list[T]:
        """Waits for all results, in order. The first element that did not complete raises, unless its exception is
        wanted in its place.
        """
        ids = self.ids
        return read_results(ids, self._reader, await self._client.wait_all(ids, timeout), timeout, return_exceptions)

    async def limit(self, limit: Optional[int]) -> None:
        """Sets how many elements workers may hold at once; ``None`` for any number."""
        await self._client.limit_array(self.id, limit)

    async def cancel(self, reason: Optional[str] = None) -> None:
        """Cancels the elements that have not ended."""
        await self._client.cancel(self.id, reason)

    async def pause(self, reason: Optional[str] = None, *, terminate: bool = False) -> None:
        """Pauses the elements that have not ended. With ``terminate`` attempts end that could stop in place."""
        await self._client.pause(self.id, reason, terminate=terminate)

    async def resume(self) -> None:
        """Lets paused elements run again."""
        await self._client.resume(self.id)

    def infos(self, **filters: Any) -> AsyncIterator[Any]:
        """Lists the elements, in the order of their indexes; the filters are those of :meth:`Client.list`."""
        return self._client.list(array=self.id, **filters)


class SyncArrayHandle(_ArrayHandle[T]):
    """An array, for blocking programs."""

    def __init__(self, client: SyncClient, array: str, size: int, indexes: tuple[int, int], reader: Reader[T]) -> None:
        super().__init__(array, size, indexes, reader)
        self._client = client

    def __getitem__(self, place: int) -> SyncTaskHandle[T]:
        """The element in this place."""
        return SyncTaskHandle(self._client, self._id_at(place), None, self._reader)

    def __iter__(self) -> Iterator[SyncTaskHandle[T]]:
        return (self[place] for place in range(len(self)))

    def element(self, index: int) -> SyncTaskHandle[T]:
        """The element with this index."""
        return SyncTaskHandle(self._client, self._id_of(index), None, self._reader)

    def status(self) -> ArrayInfo:
        """The array as the broker knows it."""
        return self._client.show_array(self.id)

    def counts(self) -> StateCounts:
        """How many elements are in each state."""
        return self.status().counts

    def wait(self, timeout: Optional[Span] = None) -> ArrayInfo:
        """Waits until all elements have ended, however they end."""
        return self._check(self._client.wait_array(self.id, timeout), timeout)

    def results(self, timeout: Optional[Span] = None, *, return_exceptions: bool = False) -> list[T]:
        """Waits for all results, in order. The first element that did not complete raises, unless its exception is
        wanted in its place.
        """
        ids = self.ids
        return read_results(ids, self._reader, self._client.wait_all(ids, timeout), timeout, return_exceptions)

    def limit(self, limit: Optional[int]) -> None:
        """Sets how many elements workers may hold at once; ``None`` for any number."""
        self._client.limit_array(self.id, limit)

    def cancel(self, reason: Optional[str] = None) -> None:
        """Cancels the elements that have not ended."""
        self._client.cancel(self.id, reason)

    def pause(self, reason: Optional[str] = None, *, terminate: bool = False) -> None:
        """Pauses the elements that have not ended. With ``terminate`` attempts end that could stop in place."""
        self._client.pause(self.id, reason, terminate=terminate)

    def resume(self) -> None:
        """Lets paused elements run again."""
        self._client.resume(self.id)

    def infos(self, **filters: Any) -> Iterator[Any]:
        """Lists the elements, in the order of their indexes; the filters are those of :meth:`SyncClient.list`."""
        return self._client.list(array=self.id, **filters)


def read_results(
    ids: list[str],
    reader: Reader[T],
    waited: tuple[dict[str, Ended], list[str]],
    timeout: Optional[Span],
    return_exceptions: bool,
) -> list[Any]:
    """The results of many tasks, in order."""
    ended, pending = waited
    if pending:
        limit = seconds(timeout) if timeout is not None else 0
        raise ResultTimeout(
            f"timed out after {limit} s: {len(pending)} of {len(ids)} tasks have not ended; they keep running"
        )
    results: list[Any] = []
    for task in ids:
        try:
            results.append(reader(task, ended[task]))
        except TenureError as error:
            if not return_exceptions:
                raise
            results.append(error)
    return results


def part_name(name: str, number: int, count: int) -> str:
    """The name of one of the arrays that a map takes. It says how many there are, so that none is overlooked."""
    return f"{name}-part{number}of{count}"


def part_names(name: Optional[str]) -> Optional[list[str]]:
    """The names of all arrays of the map to which the array of this name belongs, if it took several."""
    part = re.fullmatch(r"(.+)-part(\d+)of(\d+)", name or "", re.DOTALL)
    if part is None or not 1 <= int(part[2]) <= int(part[3]) <= PARTS_MAX:
        return None
    return [part_name(part[1], number, int(part[3])) for number in range(1, int(part[3]) + 1)]


def split(bodies: list[bytes]) -> Iterator[list[bytes]]:
    """Bodies in lists that fit into one array each; almost always one."""
    part: list[bytes] = []
    size = 0
    for body in bodies:
        takes = len(body) + BODY_OVERHEAD
        if part and (len(part) == SIZE_MAX or size + takes > BODIES_BYTES_MAX):
            yield part
            part, size = [], 0
        part.append(body)
        size += takes
    if part:
        yield part


def _describe(queue: str, body: Body, bodies: Optional[Iterable[Body]], options: dict[str, Any]) -> ArraySubmission:
    indexes = {key: options.pop(key) for key in ("size", "first", "step", "limit") if key in options}
    if isinstance(bodies, (str, bytes, bytearray, memoryview)):
        raise BadSetting("bodies is a single body: pass a list with one body for each element")
    return ArraySubmission(
        Submission(queue, body, **options), bodies=None if bodies is None else list(bodies), **indexes
    )


class ArrayVerbs(Asks):
    """The verbs of arrays, for asyncio clients."""

    async def submit_array(
        self, queue: str, body: Body = b"", *, bodies: Optional[Iterable[Body]] = None, **options: Any
    ) -> ArrayHandle[bytes]:
        """Submits an array in one frame: ``size`` elements that share a body, or one for each of ``bodies``. All are
        accepted, or none. ``first`` and ``step`` choose the indexes, ``limit`` how many elements workers may hold at
        once; the other options are those of :class:`Submission`.
        """
        return await self.submit_one_array(_describe(queue, body, bodies, options))

    async def submit_one_array(self, array: ArraySubmission, reader: Reader[T] = read_bytes) -> ArrayHandle[T]:  # type: ignore[assignment]
        """Submits what an :class:`ArraySubmission` describes."""
        accepted = await self._do(array.ask())
        return ArrayHandle(self, accepted.id, accepted.size, (array.first, array.step), reader)  # type: ignore[arg-type]

    def array_handle(self, info: ArrayInfo) -> ArrayHandle[bytes]:
        """The handle of an array that is there already: ``client.array_handle(await client.find_array("scans"))``."""
        return ArrayHandle(self, info.id, info.size, (info.first, info.step), read_bytes)  # type: ignore[arg-type]

    async def show_array(self, array: str) -> ArrayInfo:
        """An array with the counts of its elements."""
        return await self._do(_show(array))

    async def find_array(self, name: str) -> ArrayInfo:
        """The array that was submitted under this name."""
        return await self._do(_find(name))

    async def arrays(self, limit: int = 100) -> list[ArrayInfo]:
        """At most this many arrays, newest first."""
        return await self._do(_list(limit))

    async def limit_array(self, array: str, limit: Optional[int]) -> None:
        """Sets how many elements of an array workers may hold at once; ``None`` for any number."""
        await self._do(_limit(array, limit))

    async def wait_array(self, array: str, timeout: Optional[Span] = None) -> ArrayInfo:
        """Waits until an array has ended or the time is up. The array comes back as it then is."""
        return await self._do(_wait(array, timeout))


class SyncArrayVerbs(SyncAsks):
    """The verbs of arrays, for blocking clients."""

    def submit_array(
        self, queue: str, body: Body = b"", *, bodies: Optional[Iterable[Body]] = None, **options: Any
    ) -> SyncArrayHandle[bytes]:
        """Submits an array in one frame: ``size`` elements that share a body, or one for each of ``bodies``. All are
        accepted, or none. ``first`` and ``step`` choose the indexes, ``limit`` how many elements workers may hold at
        once; the other options are those of :class:`Submission`.

        >>> with SyncClient(broker.address) as client:
        ...     scans = client.submit_array("scans", bodies=["a.tif", "b.tif"], limit=1)
        ...     scans.counts().ready, len(scans)
        (2, 2)
        """
        return self.submit_one_array(_describe(queue, body, bodies, options))

    def submit_one_array(self, array: ArraySubmission, reader: Reader[T] = read_bytes) -> SyncArrayHandle[T]:  # type: ignore[assignment]
        """Submits what an :class:`ArraySubmission` describes."""
        accepted = self._do(array.ask())
        return SyncArrayHandle(self, accepted.id, accepted.size, (array.first, array.step), reader)  # type: ignore[arg-type]

    def array_handle(self, info: ArrayInfo) -> SyncArrayHandle[bytes]:
        """The handle of an array that is there already: ``client.array_handle(client.find_array("scans"))``."""
        return SyncArrayHandle(self, info.id, info.size, (info.first, info.step), read_bytes)  # type: ignore[arg-type]

    def show_array(self, array: str) -> ArrayInfo:
        """An array with the counts of its elements."""
        return self._do(_show(array))

    def find_array(self, name: str) -> ArrayInfo:
        """The array that was submitted under this name."""
        return self._do(_find(name))

    def arrays(self, limit: int = 100) -> list[ArrayInfo]:
        """At most this many arrays, newest first."""
        return self._do(_list(limit))

    def limit_array(self, array: str, limit: Optional[int]) -> None:
        """Sets how many elements of an array workers may hold at once; ``None`` for any number."""
        self._do(_limit(array, limit))

    def wait_array(self, array: str, timeout: Optional[Span] = None) -> ArrayInfo:
        """Waits until an array has ended or the time is up. The array comes back as it then is."""
        return self._do(_wait(array, timeout))
