"""Every request once, for the asyncio client and the blocking client."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Callable, Generic, Optional, TypeVar, Union

from . import _native
from ._checks import U32, U64, maybe_whole, names
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
    read,
    read_json,
    read_list,
)
from .submission import Body, Span, Submission, maybe_millis, span_millis, to_bytes

T = TypeVar("T")


@dataclass(frozen=True)
class Ask(Generic[T]):
    """A request, and how its answer is read."""

    request: Callable[[_native.Client, _native.Via], Any]
    read: Callable[[Any], T]


def _nothing(_: Any) -> None:
    return None


def ping() -> Ask[int]:
    return Ask(lambda client, via: client.ping(via), int)


def submit(submission: Submission) -> Ask[Accepted]:
    said = submission.said()
    return Ask(lambda client, via: client.submit(said, via), Accepted.of)


Verdict = Union[Accepted, Exception]


def _verdicts(told: list[Any]) -> list[Verdict]:
    return [one if isinstance(one, Exception) else Accepted.of(one) for one in told]


def submit_many(submissions: Iterable[Submission]) -> Ask[list[Verdict]]:
    said = [submission.said() for submission in submissions]
    return Ask(lambda client, via: client.submit_many(said, via), _verdicts)


def submit_same(submission: Submission, bodies: list[bytes], names: Optional[list[str]]) -> Ask[list[Verdict]]:
    said = submission.said()
    return Ask(lambda client, via: client.submit_same(said, bodies, names, via), _verdicts)


def wait(task: str, timeout: Optional[Span]) -> Ask[Optional[Ended]]:
    limit = maybe_millis(timeout)
    return Ask(
        lambda client, via: client.wait(task, limit, via),
        lambda told: None if told is None else Ended.of(told),
    )


Waited = tuple[dict[str, Ended], list[str]]


def wait_all(tasks: list[str], timeout: Optional[Span]) -> Ask[Waited]:
    limit = maybe_millis(timeout)

    def waited(told: tuple[list[Any], list[str]]) -> Waited:
        ended, pending = told
        return {task: Ended.of(end) for task, end in ended}, pending

    return Ask(lambda client, via: client.wait_all(tasks, limit, via), waited)


def show(task: str) -> Ask[TaskInfo]:
    return Ask(lambda client, via: client.show(task, via), lambda told: read_json(TaskInfo, told))


def find(name: str) -> Ask[TaskInfo]:
    return Ask(lambda client, via: client.find(name, via), lambda told: read_json(TaskInfo, told))


def explain(task: str) -> Ask[Why]:
    return Ask(lambda client, via: client.explain(task, via), lambda told: read_json(Why, told))


def fetch(task: str, what: str) -> Ask[bytes]:
    return Ask(lambda client, via: client.fetch(task, what, via), bytes)


def queues() -> Ask[list[QueueInfo]]:
    return Ask(lambda client, via: client.look("queues", via), lambda told: read_list(QueueInfo, told))


def workers() -> Ask[list[WorkerInfo]]:
    return Ask(lambda client, via: client.look("workers", via), lambda told: read_list(WorkerInfo, told))


def limits() -> Ask[list[LimitInfo]]:
    return Ask(lambda client, via: client.look("limits", via), lambda told: read_list(LimitInfo, told))


def shares() -> Ask[list[ShareInfo]]:
    return Ask(lambda client, via: client.look("shares", via), lambda told: read_list(ShareInfo, told))


def counts() -> Ask[Counts]:
    return Ask(lambda client, via: client.look("counts", via), lambda told: read_json(Counts, told))


def stats() -> Ask[list[dict[str, Any]]]:
    return Ask(lambda client, via: client.look("stats", via), json.loads)


def subscriptions() -> Ask[list[dict[str, Any]]]:
    return Ask(lambda client, via: client.look("subscriptions", via), json.loads)


def steer(verb: str, task: str, reason: Optional[str] = None) -> Ask[None]:
    return Ask(lambda client, via: client.steer(verb, task, reason, via), _nothing)


def pause(task: str, reason: Optional[str], terminate: bool) -> Ask[None]:
    return steer("pause-and-terminate" if terminate else "pause", task, reason)


def steer_named(verb: str, name: str) -> Ask[None]:
    return Ask(lambda client, via: client.steer_named(verb, name, via), _nothing)


def move(task: str, queue: Optional[str], priority: Optional[int], tags: Optional[Sequence[str]]) -> Ask[None]:
    to_tags = None if tags is None else names("tags", tags)
    to_priority = maybe_whole("priority", priority, -(1 << 31), (1 << 31) - 1)
    return Ask(lambda client, via: client.move_task(task, queue, to_priority, to_tags, via), _nothing)


def set_limit(tag: str, limit: Optional[int]) -> Ask[None]:
    most = maybe_whole("the limit", limit, 0, U32)
    return Ask(lambda client, via: client.set_limit(tag, most, via), _nothing)


def set_tag_rate(tag: str, rate: Optional[str], burst: Optional[int]) -> Ask[None]:
    at_once = maybe_whole("burst", burst, 0, U32)
    return Ask(lambda client, via: client.set_rate("tag", tag, rate, at_once, via), _nothing)


def set_queue_rate(queue: str, rate: Optional[str], burst: Optional[int]) -> Ask[None]:
    at_once = maybe_whole("burst", burst, 0, U32)
    return Ask(lambda client, via: client.set_rate("queue", queue, rate, at_once, via), _nothing)


def set_share(share: str, weight: Optional[int]) -> Ask[None]:
    of = maybe_whole("the weight", weight, 0, U32)
    return Ask(lambda client, via: client.set_share(share, of, via), _nothing)


def set_thresholds(queue: str, depth: Optional[int], age: Optional[Span]) -> Ask[None]:
    age_ms, most = maybe_millis(age), maybe_whole("depth", depth, 0, U32)
    return Ask(lambda client, via: client.set_thresholds(queue, most, age_ms, via), _nothing)


@dataclass(frozen=True)
class NewMessage:
    """A message to publish.

    >>> NewMessage("sensor.kitchen", "21.5", retain=True).topic
    'sensor.kitchen'
    """

    topic: str
    payload: Body = b""
    #: Whether it is kept as the last known value of its topic.
    retain: bool = False
    #: How long it is worth keeping.
    ttl_ms: Optional[int] = None
    content_type: Optional[str] = None
    correlation: Optional[str] = None
    source: Optional[str] = None

    def said(self) -> tuple[Any, ...]:
        """What goes to the native client."""
        return (
            self.topic,
            to_bytes(self.payload),
            self.retain,
            maybe_whole("ttl_ms", self.ttl_ms, 0, U64),
            self.content_type,
            self.correlation,
            self.source,
        )


def publish(message: NewMessage) -> Ask[Published]:
    def published(told: list[Any]) -> Published:
        if isinstance(told[0], Exception):
            raise told[0]
        return read_json(Published, told[0])

    said = [message.said()]
    return Ask(lambda client, via: client.publish(said, via), published)


def publish_many(messages: Iterable[NewMessage]) -> Ask[list[Union[Published, Exception]]]:
    def published(told: list[Any]) -> list[Union[Published, Exception]]:
        return [one if isinstance(one, Exception) else read_json(Published, one) for one in told]

    said = [message.said() for message in messages]
    return Ask(lambda client, via: client.publish(said, via), published)


def request(topic: str, payload: Body, timeout: Span) -> Ask[Response]:
    body, limit = to_bytes(payload), span_millis(timeout)

    def responded(told: tuple[bytes, str]) -> Response:
        return read(Response, {**json.loads(told[1]), "payload": told[0]})

    return Ask(lambda client, via: client.request(topic, body, limit, via), responded)


def topics(pattern: Optional[str]) -> Ask[list[TopicInfo]]:
    return Ask(lambda client, via: client.topics(pattern, via), lambda told: read_list(TopicInfo, told))


def unsubscribe(id: str) -> Ask[None]:
    return Ask(lambda client, via: client.unsubscribe(id, via), _nothing)


def pause_subscription(id: str) -> Ask[float]:
    return Ask(lambda client, via: client.pause_subscription(id, via), lambda kept: kept / 1000)


def call(to: str, body: Body, timeout: Optional[Span]) -> Ask[bytes]:
    sent, limit = to_bytes(body), maybe_millis(timeout)

    def answered(told: tuple[str, bytes]) -> bytes:
        from .talk import CallCancelled, CallFailed

        outcome, answer = told
        if outcome == "error":
            raise CallFailed(to, answer)
        if outcome == "cancelled":
            raise CallCancelled(f"the receiver of the call to {to!r} gave it up")
        return answer

    return Ask(lambda client, via: client.call(to, sent, limit, via), answered)


def broadcast(body: Body, subject: Optional[str], sender: Optional[str], correlation: Optional[str]) -> Ask[int]:
    said = to_bytes(body)
    return Ask(lambda client, via: client.broadcast(subject, said, sender, correlation, via), int)
