"""The client for asyncio programs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence
from typing import Any, Callable, Optional, TypeVar, Union

from . import _loop, _native, _verbs
from ._base import ClientBase
from ._checks import U64, maybe_whole, names
from ._verbs import NewMessage
from .arrays import ArrayVerbs
from .errors import Closed
from .handle import Reader, TaskHandle, read_bytes
from .hooks import HookVerbs
from .logs import LogVerbs
from .reconciliation import ReconcileVerbs
from .records import (
    Accepted,
    Counts,
    Ended,
    LimitInfo,
    Published,
    QueueInfo,
    Response,
    ShareInfo,
    TaskInfo,
    TopicInfo,
    Why,
    WorkerInfo,
    read_list,
    to_millis,
)
from .schedules import ScheduleVerbs
from .streams import BroadcastReceiver, Listener, Stream, Watch, heard, watched
from .submission import Body, Span, Submission, When
from .subscription import (
    GapRecoveryMode,
    ReconnectionPolicy,
    Subscription,
    policy_of,
    recovery_word,
)
from .talk import Call

T = TypeVar("T")


class Client(ClientBase, ArrayVerbs, ScheduleVerbs, ReconcileVerbs, LogVerbs, HookVerbs):
    """A client of the broker, for asyncio (and uvloop).

    It connects when it is first used, and comes back by itself when the connection is lost: requests wait meanwhile, as
    long as ``connect_timeout`` lasts. After a ``fork`` the child gets a connection of its own.

    Without arguments it takes TENURE_BROKER, TENURE_NAMESPACE and TENURE_KEY from the environment.

    >>> async def example():
    ...     async with Client(broker.address) as client:
    ...         task = await client.submit("images", b"scan 7", name="scan-7")
    ...         return (await task.status()).state
    >>> asyncio.run(example())
    'ready'
    """

    def _new_lock(self) -> None:
        self._connecting: Optional[asyncio.Lock] = None

    async def connect(self) -> _native.Client:
        """Connects, if not connected yet. Every request does this by itself."""
        native = self._here()
        if native is not None:
            return native
        if self._closed:
            raise Closed("the client was closed: make a new one")
        self._make_again()
        if self._connecting is None:
            # Made on the loop that uses it.
            self._connecting = asyncio.Lock()
        async with self._connecting:
            if self._native is None:
                self._native = await _loop.ask(self._settings.connect)
        return self._native

    async def close(self) -> None:
        """Closes the connection. Requests in flight fail with :class:`Closed`."""
        self._close()

    async def __aenter__(self) -> Client:
        await self.connect()
        return self

    async def __aexit__(self, *_: Any) -> None:
        await self.close()

    async def identity(self) -> str:
        """The identity of this client. Its submissions can be watched by this name."""
        return (await self.connect()).identity()

    async def _ask(self, request: Callable[[_native.Client, _native.Via], Any]) -> Any:
        client = await self.connect()
        return await _loop.ask(lambda via: request(client, via))

    async def ping(self) -> int:
        """Checks that the broker answers. Returns its clock, in milliseconds since 1970."""
        return await self._do(_verbs.ping())

    async def submit(self, queue: str, body: Body = b"", **options: Any) -> TaskHandle[bytes]:
        """Submits a task and returns its handle when it is on the broker's disk. The options are those of
        :class:`Submission`.
        """
        return await self.submit_one(Submission(queue, body, **options))

    async def submit_one(self, submission: Submission, reader: Reader[T] = read_bytes) -> TaskHandle[T]:  # type: ignore[assignment]
        """Submits what a :class:`Submission` describes."""
        accepted = await self._do(_verbs.submit(submission))
        return TaskHandle(self, accepted.id, accepted, reader)

    async def submit_many(self, submissions: Iterable[Submission]) -> list[Union[TaskHandle[bytes], Exception]]:
        """Submits many tasks in as few frames as the limits allow. Returns a handle for each, or the exception that
        says why the broker refused it.
        """
        verdicts = await self._do(_verbs.submit_many(submissions))
        return [one if isinstance(one, Exception) else TaskHandle(self, one.id, one, read_bytes) for one in verdicts]

    async def submit_same(
        self, submission: Submission, bodies: list[bytes], names: Optional[list[str]] = None
    ) -> list[Union[Accepted, Exception]]:
        """Submits many tasks that differ only in their bodies, and in their names if given."""
        return await self._do(_verbs.submit_same(submission, bodies, names))

    def handle(self, task: str) -> TaskHandle[bytes]:
        """Returns the handle of an existing task."""
        return TaskHandle(self, task, None, read_bytes)

    async def wait(self, task: str, timeout: Optional[Span] = None) -> Optional[Ended]:
        """Waits until a task has ended; nothing when the time is up."""
        return await self._do(_verbs.wait(task, timeout))

    async def wait_all(
        self, tasks: Iterable[str], timeout: Optional[Span] = None
    ) -> tuple[dict[str, Ended], list[str]]:
        """Waits until all these tasks have ended: how each ended, and those that had not when the time was up."""
        return await self._do(_verbs.wait_all(list(tasks), timeout))

    async def show(self, task: str) -> TaskInfo:
        """Returns a task, in any state."""
        return await self._do(_verbs.show(task))

    async def find(self, name: str) -> TaskInfo:
        """Returns the task that was submitted under this name."""
        return await self._do(_verbs.find(name))

    async def explain(self, task: str) -> Why:
        """Returns the exact reason why a task is not running."""
        return await self._do(_verbs.explain(task))

    async def body(self, task: str) -> bytes:
        """Returns the body of a task."""
        return await self._do(_verbs.fetch(task, "body"))

    async def result(self, task: str) -> bytes:
        """Returns the result of an ended task."""
        return await self._do(_verbs.fetch(task, "result"))

    async def checkpoint(self, task: str) -> bytes:
        """Returns the last checkpoint of a task; empty if there is none."""
        return await self._do(_verbs.fetch(task, "checkpoint"))

    async def queues(self) -> list[QueueInfo]:
        """Returns all queues."""
        return await self._do(_verbs.queues())

    async def workers(self) -> list[WorkerInfo]:
        """Returns all workers."""
        return await self._do(_verbs.workers())

    async def limits(self) -> list[LimitInfo]:
        """Returns the limits of tags, and how much of each is in use."""
        return await self._do(_verbs.limits())

    async def shares(self) -> list[ShareInfo]:
        """Returns the share keys that have tasks or a weight."""
        return await self._do(_verbs.shares())

    async def counts(self) -> Counts:
        """Returns summary counts of tasks, queues and workers."""
        return await self._do(_verbs.counts())

    async def stats(self) -> list[dict[str, Any]]:
        """Returns all counters and gauges of the broker."""
        return await self._do(_verbs.stats())

    async def release(self, task: str) -> None:
        """Releases a task that was submitted with ``hold``."""
        await self._do(_verbs.steer("release", task))

    async def cancel(self, task: str, reason: Optional[str] = None) -> None:
        """Cancels a task in any state."""
        await self._do(_verbs.steer("cancel", task, reason))

    async def pause(self, task: str, reason: Optional[str] = None, *, terminate: bool = False) -> None:
        """Pauses a task until it is resumed. A worker that can stops it in place, and it goes on in the same attempt;
        with ``terminate`` the attempt ends.
        """
        await self._do(_verbs.pause(task, reason, terminate))

    async def resume(self, task: str) -> None:
        """Lets a paused task run again."""
        await self._do(_verbs.steer("resume", task))

    async def retry(self, task: str) -> None:
        """Runs an ended task once more."""
        await self._do(_verbs.steer("retry", task))

    async def move(
        self,
        task: str,
        queue: Optional[str] = None,
        priority: Optional[int] = None,
        tags: Optional[Sequence[str]] = None,
    ) -> None:
        """Changes the queue, the priority or the tags of a waiting task."""
        await self._do(_verbs.move(task, queue, priority, tags))

    async def set_tag_rate(self, tag: str, rate: Optional[str], burst: Optional[int] = None) -> None:
        """Sets how many tasks with this tag the broker assigns per period: ``10/m``, ``100/s``, ``5/30s``.

        None removes the rate.
        """
        await self._do(_verbs.set_tag_rate(tag, rate, burst))

    async def set_queue_rate(self, queue: str, rate: Optional[str], burst: Optional[int] = None) -> None:
        """Sets how many tasks of this queue the broker assigns per period. None removes the rate."""
        await self._do(_verbs.set_queue_rate(queue, rate, burst))

    async def set_share(self, share: str, weight: Optional[int]) -> None:
        """Sets the weight of a share key; None gives it the default weight, 1."""
        await self._do(_verbs.set_share(share, weight))

    async def set_limit(self, tag: str, limit: Optional[int]) -> None:
        """Sets how many tasks of a tag may be held at once; ``None`` for any number."""
        await self._do(_verbs.set_limit(tag, limit))

    async def pause_queue(self, queue: str) -> None:
        """Pauses this queue: the broker assigns none of its tasks."""
        await self._do(_verbs.steer_named("pause-queue", queue))

    async def resume_queue(self, queue: str) -> None:
        """Resumes this queue: the broker assigns its tasks again."""
        await self._do(_verbs.steer_named("resume-queue", queue))

    async def set_thresholds(self, queue: str, depth: Optional[int] = None, age: Optional[Span] = None) -> None:
        """Sets the thresholds of a queue's backlog: a number of ready tasks, or how long one has been ready. Events
        tell when it has one. Without either, the thresholds of all queues hold.
        """
        await self._do(_verbs.set_thresholds(queue, depth, age))

    async def drain_worker(self, worker: str) -> None:
        """Drains a worker: it finishes its tasks and disconnects."""
        await self._do(_verbs.steer_named("drain-worker", worker))

    async def clear_worker(self, worker: str) -> None:
        """Ends a worker's quarantine."""
        await self._do(_verbs.steer_named("clear-worker", worker))

    async def watch(
        self,
        *,
        from_: Optional[int] = None,
        task: Optional[str] = None,
        queue: Optional[str] = None,
        submitter: Optional[str] = None,
        worker: Optional[str] = None,
        kinds: Iterable[str] = (),
    ) -> Watch:
        """Watches events, from a number on or from now on. The watch is open when this returns. It survives restarts of
        the broker; events that are no longer kept come as an :class:`EventGap`.
        """
        wanted, first = names("kinds", kinds), maybe_whole("from_", from_, 0, U64)
        native = await self._ask(lambda client, via: client.watch(first, task, queue, submitter, worker, wanted, via))
        return Stream(native, watched)

    async def call(self, to: str, body: Body = b"", timeout: Optional[Span] = None) -> bytes:
        """Calls the program that listens at an address. Raises :class:`NoListener` at once if none does, and
        :class:`CallFailed` if the receiver answers with an error.
        """
        return await self._do(_verbs.call(to, body, timeout))

    async def listen(self, addresses: Iterable[str]) -> Listener:
        """Receives calls to these addresses from now on, across reconnects, until it is closed."""
        wanted = names("addresses", addresses)
        native = await self._ask(lambda client, via: client.listen(wanted, via))
        return Stream(native, Call)

    async def broadcast(
        self,
        body: Body = b"",
        *,
        subject: Optional[str] = None,
        sender: Optional[str] = None,
        correlation: Optional[str] = None,
    ) -> int:
        """Sends a broadcast to all receivers of this subject in the namespace. Returns how many there were."""
        return await self._do(_verbs.broadcast(body, subject, sender, correlation))

    async def receive_broadcasts(
        self, subject: Optional[str] = None, sender: Optional[str] = None
    ) -> BroadcastReceiver:
        """Receives broadcasts from now on, across reconnects, until it is closed."""
        native = await self._ask(lambda client, via: client.receive_broadcasts(subject, sender, via))
        return Stream(native, heard)

    async def publish(
        self,
        topic: str,
        payload: Body = b"",
        *,
        ttl_ms: Optional[int] = None,
        retain: bool = False,
        content_type: Optional[str] = None,
        correlation: Optional[str] = None,
        source: Optional[str] = None,
    ) -> Published:
        """Publishes a message. Returns its sequence number and the number of subscribers that get it."""
        message = NewMessage(topic, payload, retain, ttl_ms, content_type, correlation, source)
        return await self._do(_verbs.publish(message))

    async def publish_many(self, messages: Iterable[NewMessage]) -> list[Union[Published, Exception]]:
        """Publishes many messages in their order. Each has an answer of its own."""
        return await self._do(_verbs.publish_many(messages))

    async def request(self, topic: str, payload: Body = b"", timeout: Span = 5.0) -> Response:
        """Asks the subscribers of a topic and waits for the first answer. They publish it to ``message.reply_to``."""
        return await self._do(_verbs.request(topic, payload, timeout))

    async def subscribe(
        self,
        topics: Iterable[str],
        *,
        id: Optional[str] = None,
        group: Optional[str] = None,
        retained: bool = False,
        queue: Optional[tuple[int, str]] = None,
        from_: Optional[int] = None,
        gap_recovery_mode: Optional[GapRecoveryMode] = None,
        reconnection_policy: Optional[ReconnectionPolicy] = None,
    ) -> Subscription:
        """Subscribes to names and patterns: ``*`` for one level, ``>`` at the end for all the rest. When this returns
        the subscription stands.

        ``id`` is a name under which the next process finds the subscription again; ``group`` shares the messages with
        its other members; ``retained`` begins with the last known values; ``queue`` says how many messages may wait at
        the broker and what happens then (``drop-oldest``, ``drop-newest``, ``block``); ``from_`` begins with this
        number as far as it is kept.
        """
        wanted = names("topics", topics)
        recovery = recovery_word(gap_recovery_mode or self._gap_recovery_mode)
        policy = policy_of(reconnection_policy or self._reconnection_policy)
        said, first = policy.said(), maybe_whole("from_", from_, 0, U64)
        native = await self._ask(
            lambda client, via: client.subscribe(wanted, id, group, retained, queue, recovery, first, said, via)
        )
        return Subscription(native, wanted, id is not None, policy, self._on_state, self._on_gap)

    async def topics(self, pattern: Optional[str] = None) -> list[TopicInfo]:
        """Topics that match a name or pattern, or all."""
        return await self._do(_verbs.topics(pattern))

    async def subscriptions(self) -> list[dict[str, Any]]:
        """All subscriptions of the namespace with their figures, paused ones included."""
        return await self._do(_verbs.subscriptions())

    async def unsubscribe(self, id: str) -> None:
        """Ends a subscription by its id."""
        await self._do(_verbs.unsubscribe(id))

    async def pause_subscription(self, id: str) -> float:
        """Pauses a subscription by its id. Returns for how many seconds the broker keeps it."""
        return await self._do(_verbs.pause_subscription(id))

    async def list(
        self,
        *,
        states: Iterable[str] = (),
        queue: Optional[str] = None,
        tag: Optional[str] = None,
        worker: Optional[str] = None,
        parent: Optional[str] = None,
        array: Optional[str] = None,
        without_elements: bool = False,
        submitter: Optional[str] = None,
        submitted_after: Optional[When] = None,
        submitted_before: Optional[When] = None,
        page: int = 100,
    ) -> AsyncIterator[TaskInfo]:
        """Lists tasks; pages are fetched as they are needed. An omitted filter matches everything. ``array`` lists the
        elements of an array, ``without_elements`` leaves out those of all arrays.
        """
        wanted = names("states", states)
        after = None if submitted_after is None else to_millis(submitted_after)
        before = None if submitted_before is None else to_millis(submitted_before)
        client = await self.connect()
        listing = client.list_tasks(
            wanted, queue, tag, worker, parent, array, without_elements, submitter, after, before, page
        )
        while True:
            told = await _loop.ask(listing.next_page)
            if told is None:
                return
            for task in read_list(TaskInfo, told):
                yield task
