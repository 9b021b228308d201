"""Tasks of plain functions: ``@app.task()``, ``f.submit(…)``, ``f.map(…)``."""

from __future__ import annotations

import asyncio
import dataclasses
import functools
import inspect
import sys
import uuid
from collections.abc import Awaitable, Iterable, Iterator, Sequence
from typing import Any, Callable, Generic, Optional, Protocol, TypeVar, cast, overload

from . import _modules, _process, schedules
from .arrays import ArrayHandle, ArraySubmission, SyncArrayHandle, part_name, part_names, split
from .batch import AsyncBatch, Batch
from .client import Client
from .codec import decode, encode
from .context import Context, Fail, current_traceparent
from .errors import BadSetting, CannotDecode
from .handle import SyncTaskHandle, TaskHandle, read_bytes
from .records import Ended
from .submission import Body, Span, Submission
from .sync_client import SyncClient

if sys.version_info >= (3, 10):
    from typing import ParamSpec
else:
    from typing_extensions import ParamSpec

P = ParamSpec("P")
R = TypeVar("R")
F = Callable[P, R]

#: The queue of tasks that name none.
DEFAULT_QUEUE = "default"


class App:
    """A set of tasks, and the broker they go to.

    >>> app = App(broker.address)
    >>> @app.task(queue="sums", retries=3)
    ... def add(x: int, y: int) -> int:
    ...     return x + y
    >>> add(1, 2)
    3
    >>> with app.worker():
    ...     add.submit(1, 2).result(timeout=30)
    3

    A worker runs them with ``python -m tenure work module:app``.
    """

    def __init__(
        self,
        address: Optional[str] = None,
        *,
        namespace: Optional[str] = None,
        key: Optional[str] = None,
        queue: str = DEFAULT_QUEUE,
        connect_timeout: Span = 30.0,
    ) -> None:
        """``queue`` is the one of tasks that name none. Where the broker is may be left to the environment, see
        :class:`SyncClient`.
        """
        self._settings: dict[str, Any] = {
            "address": address,
            "namespace": namespace,
            "key": key,
            "connect_timeout": connect_timeout,
        }
        self._queue = queue
        self._client: Optional[SyncClient] = None
        self._async_client: Optional[tuple[Any, Client]] = None
        self.tasks: dict[str, Task[..., Any]] = {}

    def configure(self, **settings: Any) -> None:
        """Changes where the broker is: ``address``, ``namespace``, ``key`` or ``connect_timeout``."""
        unknown = settings.keys() - self._settings.keys()
        if unknown:
            raise BadSetting(f"an app has no setting {unknown.pop()!r}: it has {', '.join(self._settings)}")
        self.close()
        self._async_client = None
        self._settings.update(settings)

    @property
    def client(self) -> SyncClient:
        """The client through which tasks are submitted."""
        if self._client is None:
            self._client = SyncClient(**self._settings)
        return self._client

    @property
    def async_client(self) -> Client:
        """The same for the running event loop."""
        here = (asyncio.get_running_loop(), _process.generation())
        if self._async_client is None or self._async_client[0] != here:
            self._async_client = (here, Client(**self._settings))
        return self._async_client[1]

    def close(self) -> None:
        """Ends the connection through which tasks were submitted."""
        if self._client is not None:
            self._client.close()
            self._client = None

    @overload
    def task(self, function: Callable[P, Awaitable[R]], /) -> Task[P, R]: ...
    @overload
    def task(self, function: Callable[P, R], /) -> Task[P, R]: ...
    @overload
    def task(self, /, *, name: Optional[str] = None, **options: Any) -> Decorator: ...

    def task(self, function: Any = None, /, *, name: Optional[str] = None, **options: Any) -> Any:
        """Makes a task of a plain or async function. The options are those of :class:`Submission`: ``queue``,
        ``retries``, ``on_lost``, ``tags``, ``priority``, ``run_limit``, ``backoff``, ``needs`` …
        """
        if function is None:
            return lambda function: self._make(function, name, options)
        return self._make(function, name, options)

    def _make(self, function: Any, name: Optional[str], options: dict[str, Any]) -> Task[..., Any]:
        if not callable(function):
            raise BadSetting(f"{function!r} is not a function: write @app.task() or @app.task(queue=…)")
        made: Task[..., Any] = Task(self, function, name or default_name(function), {"queue": self._queue, **options})
        made.submission(b"").said()  # Invalid options raise here, where they are written.
        if made.name in self.tasks:
            raise BadSetting(f"there are two tasks called {made.name!r}: set another name= for one of them")
        self.tasks[made.name] = made
        return made

    @property
    def queues(self) -> list[str]:
        """The queues of all tasks."""
        return sorted({task.options["queue"] for task in self.tasks.values()}) or [self._queue]

    def worker(self, **settings: Any) -> Any:
        """A worker of these tasks inside this process; the settings are those of :class:`Worker`. For tests, and for
        programs that work and submit.
        """
        from ._pool_threads import ThreadPool
        from .worker import Worker, tasks_max

        settings = {**{key: value for key, value in self._settings.items() if value is not None}, **settings}
        settings.setdefault("queues", self.queues)
        if "pool" not in settings:
            settings["pool"] = ThreadPool(self.handle, tasks_max(settings.get("slots", 1), settings.get("light_slots")))
        return Worker(self.handle, **settings)

    def handle(self, context: Context) -> Any:
        """Runs the task of a context: the handler of workers. An async function gives an awaitable."""
        function, args, kwargs = self.read(context.body)
        result = function(*args, **kwargs)
        return _encode_later(result) if inspect.isawaitable(result) else encode(result)

    async def handle_async(self, context: Context) -> bytes:
        """The same on an event loop: a plain function runs in a thread meanwhile."""
        function, args, kwargs = self.read(context.body)
        if inspect.iscoroutinefunction(function):
            return encode(await function(*args, **kwargs))
        return encode(await asyncio.to_thread(function, *args, **kwargs))

    def read(self, body: bytes) -> tuple[Callable[..., Any], list[Any], dict[str, Any]]:
        """The function and the arguments of a task's body. What cannot be right is a failure for good."""
        try:
            name, args, kwargs = decode(body)
            task = self.tasks.get(name)
        except CannotDecode as error:
            raise Fail(f"the arguments cannot be read: {error}", final=True) from error
        except (TypeError, ValueError) as error:
            raise Fail("the body was not submitted by this package", final=True) from error
        if task is None:
            raise Fail(f"this worker has no task {name!r}: import the module that has it", final=True)
        return task.function, args, kwargs


async def _encode_later(result: Awaitable[Any]) -> bytes:
    return encode(await result)


def default_name(function: Callable[..., Any]) -> str:
    """The name of a function's task: its module and its own."""
    return f"{_modules.module_name(function.__module__)}.{function.__qualname__}"


def read_result(task: str, ended: Ended) -> Any:
    """The result of a task of an app."""
    return decode(read_bytes(task, ended)) if ended.result or not ended.completed else None


class Decorator(Protocol):
    """What makes a task of a function."""

    @overload
    def __call__(self, function: Callable[P, Awaitable[R]], /) -> Task[P, R]: ...
    @overload
    def __call__(self, function: Callable[P, R], /) -> Task[P, R]: ...


class Task(Generic[P, R]):
    """A function that can be called here, or submitted to run elsewhere."""

    def __init__(self, app: App, function: Callable[P, Any], name: str, options: dict[str, Any]) -> None:
        functools.update_wrapper(self, function)
        self.app = app
        self.function = function
        self.name = name
        self.options = options
        self._signature = inspect.signature(function)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Calls the function here."""
        return cast(R, self.function(*args, **kwargs))

    def __repr__(self) -> str:
        return f"<Task {self.name}>"

    def with_options(self, **options: Any) -> Task[P, R]:
        """The same task with other options: ``f.with_options(priority=5, delay=60).submit(…)``."""
        return Task(self.app, self.function, self.name, {**self.options, **options})

    def submit(self, *args: P.args, **kwargs: P.kwargs) -> SyncTaskHandle[R]:
        """Submits a call. The task gets a name of its own, so that a broken connection never submits it twice."""
        return self.app.client.submit_one(self.submission(self.body(args, kwargs)), read_result)

    async def submit_async(self, *args: P.args, **kwargs: P.kwargs) -> TaskHandle[R]:
        """The same for asyncio programs."""
        return await self.app.async_client.submit_one(self.submission(self.body(args, kwargs)), read_result)

    def map(self, values: Iterable[Any], *, limit: Optional[int] = None) -> Batch[R]:
        """Submits a call for each value as one array, in one frame. Workers hold at most ``limit`` of them at once.

        >>> app = App(broker.address)
        >>> @app.task(queue="squares")
        ... def square(x):
        ...     return x * x
        >>> with app.worker(slots=4):
        ...     square.map(range(5)).results(timeout=30)
        [0, 1, 4, 9, 16]
        """
        return self.starmap(((value,) for value in values), limit=limit)

    def starmap(self, calls: Iterable[Iterable[Any]], *, limit: Optional[int] = None) -> Batch[R]:
        """Submits a call for each tuple of arguments, like :meth:`map`."""
        client = self.app.client
        arrays = [client.submit_one_array(array, read_result) for array in self._arrays(calls, limit)]
        return Batch(client, arrays, read_result)

    async def map_async(self, values: Iterable[Any], *, limit: Optional[int] = None) -> AsyncBatch[R]:
        """Like :meth:`map`, for asyncio programs."""
        return await self.starmap_async(((value,) for value in values), limit=limit)

    async def starmap_async(self, calls: Iterable[Iterable[Any]], *, limit: Optional[int] = None) -> AsyncBatch[R]:
        """Like :meth:`starmap`, for asyncio programs."""
        client = self.app.async_client
        arrays = [await client.submit_one_array(array, read_result) for array in self._arrays(calls, limit)]
        return AsyncBatch(client, arrays, read_result)

    def _arrays(self, calls: Iterable[Iterable[Any]], limit: Optional[int]) -> Iterator[ArraySubmission]:
        parts = list(split([self.body(tuple(args), {}) for args in calls]))
        if limit is not None and len(parts) > 1:
            raise BadSetting("the arguments have more than 16 MB and take several arrays: limit them by a tag instead")
        submission = self.submission(b"")
        first = 0
        for number, bodies in enumerate(parts, 1):
            # Each part has a name, so that a broken connection never submits it twice, and the others find it.
            name = submission.name if len(parts) == 1 else part_name(str(submission.name), number, len(parts))
            items: list[Body] = list(bodies)
            yield ArraySubmission(dataclasses.replace(submission, name=name), bodies=items, first=first, limit=limit)
            first += len(bodies)

    def handle(self, task: str) -> SyncTaskHandle[R]:
        """The handle of a call that was submitted before, by its id."""
        return SyncTaskHandle(self.app.client, task, None, read_result)

    def handle_async(self, task: str) -> TaskHandle[R]:
        """Like :meth:`handle`, for asyncio programs."""
        return TaskHandle(self.app.async_client, task, None, read_result)

    def batch(self, array: str) -> Batch[R]:
        """The calls of an earlier :meth:`map`, by the id of its array. If the map took several arrays, the id of any of
        them stands for all; :class:`UnknownTask` is raised if the broker no longer keeps one.
        """
        client = self.app.client
        infos = [client.show_array(array)]
        if (names := part_names(infos[0].name)) is not None:
            infos = [infos[0] if name == infos[0].name else client.find_array(name) for name in names]
        handles = [SyncArrayHandle(client, info.id, info.size, (info.first, info.step), read_result) for info in infos]
        return Batch(client, handles, read_result)

    async def batch_async(self, array: str) -> AsyncBatch[R]:
        """Like :meth:`batch`, for asyncio programs."""
        client = self.app.async_client
        infos = [await client.show_array(array)]
        if (names := part_names(infos[0].name)) is not None:
            infos = [infos[0] if name == infos[0].name else await client.find_array(name) for name in names]
        handles = [ArrayHandle(client, info.id, info.size, (info.first, info.step), read_result) for info in infos]
        return AsyncBatch(client, handles, read_result)

    def schedule(
        self,
        name: str,
        when: str,
        args: Sequence[Any] = (),
        kwargs: Optional[dict[str, Any]] = None,
        **settings: Any,
    ) -> None:
        """Creates a schedule that submits a call again and again, or changes the one of this name. ``when`` is a cron
        expression or ``every 15m``; the settings are those of :meth:`SyncClient.set_schedule`: ``zone``, ``catch_up``,
        ``overlap``, ``jitter``, ``expires_after``, ``paused``.

        >>> app = App(broker.address)
        >>> @app.task(queue="reports")
        ... def report(day: str) -> None: ...
        >>> report.schedule("daily report", "0 6 * * 1-5", ["yesterday"], zone="Europe/Zurich")
        >>> app.client.schedule("daily report").terms.queue
        'reports'
        """
        if not isinstance(args, (list, tuple)):
            raise TypeError(f"{self.name}: give the arguments of the call as a list, such as [{args!r}]")
        options = {key: value for key, value in self.options.items() if key != "name"}
        submission = self._submission(self.body(tuple(args), kwargs or {}), options)
        try:
            ask = schedules.set_one(name, when, submission, **settings)
        except TypeError as error:
            raise BadSetting(f"{error}: see SyncClient.set_schedule for the settings of a schedule") from None
        self.app.client._do(ask)

    def body(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bytes:
        """The bytes of a call. Arguments that the function does not take are refused here, not in the worker."""
        try:
            self._signature.bind(*args, **kwargs)
        except TypeError as error:
            raise TypeError(f"{self.name}: {error}") from None
        return encode([self.name, list(args), kwargs])

    def submission(self, body: bytes) -> Submission:
        """What is submitted for a call. Inside of another task it belongs to the trace of that one."""
        options = dict(self.options)
        options.setdefault("name", uuid.uuid4().hex)
        if "traceparent" not in options and (inherited := current_traceparent()) is not None:
            options["traceparent"], options["tracestate"] = inherited
        return self._submission(body, options)

    def _submission(self, body: bytes, options: dict[str, Any]) -> Submission:
        known = [field.name for field in dataclasses.fields(Submission) if field.name != "body"]
        unknown = options.keys() - known
        if unknown:
            raise BadSetting(f"a task has no option {min(unknown)!r}: the options are {', '.join(known)}")
        return Submission(body=body, **options)
