"""Records of the broker: tasks, workers, queues, events, messages. Plain frozen dataclasses."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any, Optional, TypeVar, Union

from .errors import BadSetting

R = TypeVar("R")


def when(millis: int) -> datetime:
    """A point in time, from the milliseconds of the wire.

    >>> when(0).isoformat()
    '1970-01-01T00:00:00+00:00'
    """
    return datetime.fromtimestamp(millis / 1000, timezone.utc)


def to_millis(time: Union[datetime, int, float]) -> int:
    """Milliseconds for the wire, from a datetime or from seconds since 1970."""
    if isinstance(time, datetime):
        time = time.timestamp()
    elif isinstance(time, str) or not hasattr(time, "__float__"):
        raise BadSetting(f"{time!r} is no point in time: pass a datetime, or seconds since 1970")
    return max(0, int(float(time) * 1000))


def read(kind: type[R], told: dict[str, Any]) -> R:
    """Reads a record from what the broker told. What this version does not know is passed over."""
    values: dict[str, Any] = {}
    for one in dataclasses.fields(kind):  # type: ignore[arg-type]
        if one.name in told:
            convert = one.metadata.get("as")
            value = told[one.name]
            values[one.name] = convert(value) if convert and value is not None else value
    return kind(**values)


def read_json(kind: type[R], text: str) -> R:
    """Reads a record from the JSON of the native client."""
    return read(kind, json.loads(text))


def read_list(kind: type[R], text: str) -> list[R]:
    """Reads a list of records from JSON."""
    return [read(kind, told) for told in json.loads(text)]


def _time(default: Any = None) -> Any:
    return field(default=default, metadata={"as": when})


def _record(kind: Any, default: Any = None) -> Any:
    return field(default=default, metadata={"as": lambda told: read(kind, told)})


def _records(kind: Any) -> Any:
    return field(default_factory=list, metadata={"as": lambda told: [read(kind, one) for one in told]})


def _times() -> Any:
    return field(default_factory=list, metadata={"as": lambda told: [when(one) for one in told]})


@dataclass(frozen=True)
class Why:
    """The exact reason why a task is not running. ``str()`` is a sentence for people."""

    code: str
    message: str
    state: Optional[str] = None
    queue: Optional[str] = None
    worker: Optional[str] = None
    tag: Optional[str] = None
    since: Optional[datetime] = _time()
    until: Optional[datetime] = _time()
    missing: list[str] = field(default_factory=list)
    workers: Optional[int] = None
    slots: Optional[int] = None
    limit: Optional[int] = None
    in_use: Optional[int] = None
    array: Optional[str] = None
    #: The key prefix of the reconciliation that submitted the task.
    reconciliation: Optional[str] = None

    def __str__(self) -> str:
        return self.message


@dataclass(frozen=True)
class Accepted:
    """The broker's answer to a submission."""

    id: str
    state: str
    #: A task of this name was there already, and this is it.
    known: bool
    #: Why it cannot be handed out yet, if no worker can take it.
    unserved: Optional[Why] = None

    @classmethod
    def of(cls, told: tuple[str, str, bool, Optional[str]]) -> Accepted:
        task, state, known, unserved = told
        return cls(task, state, known, read_json(Why, unserved) if unserved else None)


@dataclass(frozen=True)
class Ended:
    """How a task ended."""

    state: str
    exit_code: int
    at: datetime
    message: Optional[str]
    worker: Optional[str]
    result: bytes

    @classmethod
    def of(cls, told: tuple[str, int, int, Optional[str], Optional[str], bytes]) -> Ended:
        state, exit_code, at, message, worker, result = told
        return cls(state, exit_code, when(at), message, worker, result)

    @property
    def completed(self) -> bool:
        return self.state == "completed"


@dataclass(frozen=True)
class Terms:
    """The options of a task at its submission."""

    queue: str
    needs: list[str] = field(default_factory=list)
    tags: list[str] = field(default_factory=list)
    on_lost: str = "requeue"
    crash_budget: int = 3
    retries: int = 0
    backoff_first_ms: int = 1_000
    backoff_max_ms: int = 300_000
    accept_timeout_ms: Optional[int] = None
    run_limit_ms: Optional[int] = None
    cancel_timeout_ms: Optional[int] = None
    slots: int = 1
    #: Names with quantities in thousandths.
    resources: list[Any] = field(default_factory=list)
    share: Optional[str] = None
    submitter: Optional[str] = None
    on_broken: str = "cancel"


@dataclass(frozen=True)
class Progress:
    """How far a task is."""

    at: datetime = _time()
    percent: Optional[int] = None
    note: Optional[str] = None


@dataclass(frozen=True)
class Holding:
    """The worker that holds a task, and the attempt."""

    worker: str
    since: Optional[datetime] = _time()
    started_at: Optional[datetime] = _time()
    intent: Optional[dict[str, Any]] = None
    progress: Optional[Progress] = _record(Progress)
    cpus: list[int] = field(default_factory=list)
    gpus: list[int] = field(default_factory=list)


@dataclass(frozen=True)
class End:
    """The end of a task, without its result."""

    at: Optional[datetime] = _time()
    event: int = 0
    exit_code: int = 0
    result_bytes: int = 0
    message: Optional[str] = None
    worker: Optional[str] = None


@dataclass(frozen=True)
class Dependency:
    """A task or an array that another task waits or waited for."""

    task: str
    #: How it has to end: ``completed``, ``ended`` or ``failed``.
    condition: str = "completed"
    #: ``open``, ``met`` or ``broken``.
    progress: str = "open"
    #: What the broker still knows of it.
    state: Optional[str] = None
    name: Optional[str] = None
    result_bytes: int = 0


@dataclass(frozen=True)
class TaskInfo:
    """A task as the broker knows it."""

    id: str
    state: str
    terms: Terms = _record(Terms)
    name: Optional[str] = None
    parent: Optional[str] = None
    children: int = 0
    #: The array of which it is an element, and its index there.
    array: Optional[str] = None
    index: Optional[int] = None
    #: The tasks that it waits or waited for.
    after: list[Dependency] = _records(Dependency)
    priority: int = 0
    attempt: int = 0
    crashes: int = 0
    failures: int = 0
    submitted_at: Optional[datetime] = _time()
    not_before: Optional[datetime] = _time()
    expires_at: Optional[datetime] = _time()
    crashed_on: list[str] = field(default_factory=list)
    body_bytes: int = 0
    traceparent: Optional[str] = None
    tracestate: Optional[str] = None
    #: The key prefix of the reconciliation that submitted it.
    reconciliation: Optional[str] = None
    checkpoint: Optional[dict[str, Any]] = None
    until: Optional[datetime] = _time()
    holding: Optional[Holding] = _record(Holding)
    suspended_since: Optional[datetime] = _time()
    open: Optional[int] = None
    pause: Optional[dict[str, Any]] = None
    end: Optional[End] = _record(End)

    @property
    def queue(self) -> str:
        return self.terms.queue

    @property
    def ended(self) -> bool:
        return self.state in ("completed", "failed", "cancelled")


@dataclass(frozen=True)
class WorkerInfo:
    """A worker as the broker knows it."""

    worker: str
    presence: str
    since: Optional[datetime] = _time()
    last_seen: Optional[datetime] = _time()
    queues: list[str] = field(default_factory=list)
    capabilities: list[str] = field(default_factory=list)
    slots: int = 1
    slots_used: int = 0
    light_slots: int = 0
    light_used: int = 0
    #: Names with what is in use and what there is, in thousandths.
    resources: list[Any] = field(default_factory=list)
    pulls: bool = False
    held: list[dict[str, Any]] = field(default_factory=list)
    suspended: int = 0
    draining: bool = False
    crashes: int = 0
    last_crash: Optional[datetime] = _time()
    quarantined_until: Optional[datetime] = _time()
    heartbeat_ms: int = 0
    lost_after_ms: int = 0
    lease_ms: int = 0
    host: Optional[str] = None
    platform: Optional[str] = None
    version: Optional[str] = None
    door: Optional[str] = None
    stats: Optional[dict[str, Any]] = None


@dataclass(frozen=True)
class StateCounts:
    """How many tasks are in each state."""

    created: int = 0
    waiting: int = 0
    delayed: int = 0
    ready: int = 0
    assigned: int = 0
    running: int = 0
    suspended: int = 0
    paused: int = 0
    completed: int = 0
    failed: int = 0
    cancelled: int = 0


@dataclass(frozen=True)
class QueueInfo:
    """A queue as the broker knows it."""

    queue: str
    paused: bool = False
    counts: StateCounts = _record(StateCounts, StateCounts())
    live_workers: int = 0
    ever_served: bool = False
    unserved_since: Optional[datetime] = _time()
    oldest_ready: Optional[datetime] = _time()
    #: From where on the queue has a backlog: ``depth`` and ``age_ms``.
    thresholds: Optional[dict[str, int]] = None
    #: The thresholds that it has passed: ``depth``, ``age``.
    backlog: list[str] = field(default_factory=list)
    #: How often a task is handed out: ``count``, ``period_ms`` and ``burst``.
    rate: Optional[dict[str, int]] = None


@dataclass(frozen=True)
class LimitInfo:
    """The limit of a tag, and how much of it is in use."""

    tag: str
    limit: Optional[int] = None
    in_use: int = 0
    #: How often a task with the tag is handed out: ``count``, ``period_ms`` and ``burst``.
    rate: Optional[dict[str, int]] = None


@dataclass(frozen=True)
class ShareInfo:
    """A share key that has tasks or a weight."""

    share: str
    weight: int = 1
    #: How many of its tasks are ready.
    ready: int = 0


@dataclass(frozen=True)
class ArrayInfo:
    """An array as the broker knows it."""

    id: str
    #: How it ended, else the state of its most advanced element.
    state: str
    queue: str
    size: int
    name: Optional[str] = None
    submitter: Optional[str] = None
    #: The index of the first element, and the distance to the next one.
    first: int = 0
    step: int = 1
    #: How many elements workers may hold at once.
    limit: Optional[int] = None
    submitted_at: Optional[datetime] = _time()
    ended_at: Optional[datetime] = _time()
    #: All elements, those that are no longer kept included.
    counts: StateCounts = _record(StateCounts, StateCounts())

    @property
    def ended(self) -> bool:
        return self.ended_at is not None


@dataclass(frozen=True)
class ScheduleInfo:
    """A schedule as the broker knows it."""

    schedule: str
    #: ``active`` or ``paused``.
    state: str
    #: A cron expression, or ``every`` and a span.
    when: str
    zone: Optional[str] = None
    catch_up: str = "none"
    overlap: str = "queue"
    jitter_ms: int = 0
    created_at: Optional[datetime] = _time()
    #: The next due times, without jitter.
    next: list[datetime] = _times()
    last_due: Optional[datetime] = _time()
    last_task: Optional[str] = None
    fired: int = 0
    skipped: int = 0
    terms: Terms = _record(Terms)
    priority: Optional[int] = None
    expires_after_ms: Optional[int] = None
    body_bytes: int = 0


@dataclass(frozen=True)
class ReconciledTask:
    """A task that differs between the broker and another store."""

    name: str
    #: ``missing`` (here), ``ended-here``, ``ended-there`` or ``unknown-there``.
    difference: str
    #: The difference is mended.
    applied: bool = False
    task: Optional[str] = None
    state: Optional[str] = None
    #: Why it could not be mended: ``code``, ``message`` and more.
    refusal: Optional[dict[str, Any]] = None


@dataclass(frozen=True)
class HookInfo:
    """A hook, and its deliveries since the start of the broker."""

    hook: str
    #: ``webhook`` or ``command``.
    kind: str
    target: str
    events: list[str] = field(default_factory=list)
    queues: list[str] = field(default_factory=list)
    next_event: int = 0
    delivered: int = 0
    failed_attempts: int = 0
    given_up: int = 0
    missed: int = 0
    discarded: int = 0
    in_flight: int = 0
    undelivered: int = 0
    last_delivered_at: Optional[datetime] = _time()
    last_error: Optional[str] = None


@dataclass(frozen=True)
class UndeliveredEvent:
    """An event that a hook has given up."""

    seq: int
    kind: str
    given_up_at: datetime
    attempts: int
    error: str
    #: What would be sent.
    body: bytes

    @classmethod
    def of(cls, told: tuple[int, str, int, int, str, bytes]) -> UndeliveredEvent:
        seq, kind, given_up_at, attempts, error, body = told
        return cls(seq, kind, when(given_up_at), attempts, error, body)


@dataclass(frozen=True)
class LogChunk:
    """A piece of what an attempt printed."""

    attempt: int
    #: ``stdout`` or ``stderr``.
    stream: str
    #: Where it begins in its stream. A later one than the end of the piece before means that bytes are missing.
    offset: int
    at: datetime
    data: bytes

    @classmethod
    def of(cls, told: tuple[int, str, int, int, bytes]) -> LogChunk:
        attempt, stream, offset, at, data = told
        return cls(attempt, stream, offset, when(at), data)

    @property
    def text(self) -> str:
        """The piece as UTF-8 text."""
        return self.data.decode(errors="replace")


@dataclass(frozen=True)
class Counts:
    """Returns summary counts of tasks, queues and workers."""

    by_state: StateCounts = _record(StateCounts, StateCounts())
    live_workers: int = 0
    lost_workers: int = 0
    last_event: int = 0


@dataclass(frozen=True)
class Event:
    """A fact about a task, a worker, a queue or a tag. ``seq`` never goes back."""

    seq: int
    kind: str
    at: Optional[datetime] = _time()
    task: Optional[str] = None
    attempt: int = 0
    queue: Optional[str] = None
    submitter: Optional[str] = None
    worker: Optional[str] = None
    #: What only some kinds have to say.
    more: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class EventGap:
    """Events that are no longer kept: these numbers, both included, were missed."""

    first_missed: int
    last_missed: int


@dataclass(frozen=True)
class Published:
    """The sequence number of a published message, and how many subscribers get it."""

    sequence: int = 0
    receivers: int = 0
    dropped: int = 0
    blocked: int = 0
    id: Optional[str] = None


@dataclass(frozen=True)
class Message:
    """A message of a topic."""

    topic: str
    sequence: int
    payload: bytes
    published_at: datetime
    #: ``live``, ``retained`` or ``replay``.
    kind: str = "live"
    source: Optional[str] = None
    content_type: Optional[str] = None
    correlation: Optional[str] = None
    reply_to: Optional[str] = None

    @property
    def sequence_number(self) -> int:
        return self.sequence

    def payload_as_string(self) -> str:
        """The payload as UTF-8 text."""
        return self.payload.decode()


@dataclass(frozen=True)
class Gap:
    """Messages of a topic that will not come: these numbers, both included."""

    topic: str
    first_missed: int = 0
    last_missed: int = 0
    oldest_kept: int = 0
    #: ``not-kept``, ``queue-full``, ``restarted`` or ``crashed``, if it is known.
    reason: Optional[str] = None


@dataclass(frozen=True)
class TopicInfo:
    """A topic and its figures."""

    topic: str
    #: The number of the latest message.
    sequence: int = 0
    #: How many messages are kept, and from which number on.
    kept: int = 0
    oldest_kept: Optional[int] = None
    #: It has a last known value.
    retained: bool = False
    subscribers: int = 0


@dataclass(frozen=True)
class Response:
    """The answer to a request on a topic."""

    payload: bytes
    content_type: Optional[str] = None
    correlation: Optional[str] = None
    source: Optional[str] = None
    id: Optional[str] = None


@dataclass(frozen=True)
class Broadcast:
    """A broadcast to the receivers in the namespace."""

    body: bytes
    subject: Optional[str] = None
    sender: Optional[str] = None
    correlation: Optional[str] = None


@dataclass(frozen=True)
class Missed:
    """``count`` broadcasts arrived faster than the program took them, and were dropped."""

    count: int
