"""A task to submit, with its options."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Optional, Protocol, Union

from ._checks import U16, U32, names, text, whole, word
from .errors import BadSetting
from .records import to_millis

#: A span of time: seconds, or a timedelta.
Span = Union[int, float, timedelta]
#: A point in time: a datetime, or seconds since 1970.
When = Union[datetime, int, float]
#: A quantity of a resource: a number with at most three decimals, or a text with a unit.
Quantity = Union[int, float, str]
#: What a worker gets: opaque bytes; text is sent as UTF-8.
Body = Union[bytes, bytearray, memoryview, str]


class HasId(Protocol):
    """A handle of a task or of an array."""

    id: str


class HasArrays(Protocol):
    """Tasks that were mapped."""

    arrays: Any


@dataclass(frozen=True)
class After:
    """A task or an array that has to end before another task may run, by one of its id, its name, and its place in the
    same ``submit_many``. It has to be ``completed``, unless the condition is ``ended`` (in any way) or ``failed``.

    >>> After(name="clean-up", condition="ended").name
    'clean-up'
    """

    task: Optional[str] = None
    name: Optional[str] = None
    index: Optional[int] = None
    condition: str = "completed"


#: A task to wait for: its handle, its id, its name, what was mapped, or an :class:`After` that says more.
Awaited = Union[str, After, HasId, HasArrays]

_ID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")


@dataclass(frozen=True)
class Submission:
    """A task to submit. Only the queue is required.

    >>> Submission("images", b"scan 7", name="scan-7", retries=3).queue
    'images'
    """

    queue: str
    body: Body = b""
    #: Makes the submission idempotent: the same again is answered with the task that is there. Only submissions that
    #: carry a name are repeated by the client when a connection breaks.
    name: Optional[str] = None
    #: Chooses the task's id. Else the broker chooses.
    id: Optional[str] = None
    #: Higher first. Without it: the parent's plus one for a child, else zero.
    priority: Optional[int] = None
    #: Capabilities that a worker must offer.
    needs: Iterable[str] = ()
    #: Tags to be limited under.
    tags: Iterable[str] = ()
    #: How many slots it occupies (1). With 0, for a task that mostly waits, it occupies a light slot instead.
    slots: Optional[int] = None
    #: Quantities that it needs: ``{"cpus": 4, "mem": "8GB", "gpus": 0.5}``.
    resources: Optional[Mapping[str, Quantity]] = None
    #: The share key, a user or project: in a queue, the tasks of different keys take turns.
    share: Optional[str] = None
    #: The task is cancelled with its parent.
    parent: Optional[str] = None
    #: The tasks that have to end before it may run: handles, ids, names, or :class:`After`.
    after: Union[Awaited, Iterable[Awaited]] = ()
    #: What happens if one of them ends otherwise than it should: ``cancel`` (the default), ``run`` or ``hold``.
    on_broken: Optional[str] = None
    #: The trace it belongs to, as ``traceparent`` of the W3C recommendation; the worker gets it with the task.
    traceparent: Optional[str] = None
    #: What tracing systems add to the trace.
    tracestate: Optional[str] = None
    #: Whether it waits until it is released.
    hold: bool = False
    #: Does not start before this time.
    not_before: Optional[When] = None
    #: Does not start before this span is over, by this machine's clock.
    delay: Optional[Span] = None
    #: Fails if it has not started by this time.
    expires_at: Optional[When] = None
    #: What a lost worker means for the task: ``requeue``, ``pause`` or ``fail``.
    on_lost: Optional[str] = None
    #: The crash with this number is one too many (3).
    crash_budget: Optional[int] = None
    #: How often a reported failure is tried again (0).
    retries: Optional[int] = None
    #: The delay before the first retry, and the longest that it doubles to (1 s, 5 min).
    backoff: Optional[tuple[Span, Span]] = None
    #: How long it may stay assigned without being started.
    accept_timeout: Optional[Span] = None
    #: How long one attempt may run.
    run_limit: Optional[Span] = None
    #: How long a worker may take to stop it once it is cancelled; zero is as long as it takes.
    cancel_timeout: Optional[Span] = None

    def said(self) -> dict[str, Any]:
        """What goes to the native client: an entry for everything that is said."""
        said: dict[str, Any] = {"queue": text("queue", self.queue), "body": to_bytes(self.body)}
        for key in ("name", "id", "share", "parent", "traceparent", "tracestate"):
            value = getattr(self, key)
            if value is not None:
                said[key] = text(key, value)
        for key, (least, most) in _NUMBERS.items():
            value = getattr(self, key)
            if value is not None:
                said[key] = whole(key, value, least, most)
        for key, known in _WORDS.items():
            value = getattr(self, key)
            if value is not None:
                said[key] = word(key, value, known)
        for key in ("needs", "tags"):
            listed = names(key, getattr(self, key))
            if listed:
                said[key] = listed
        after = _after(self.after)
        if after:
            said["after"] = after
        if self.resources:
            said["resources"] = quantities(self.resources)
        if self.hold:
            said["hold"] = True
        if self.delay is not None:
            said["not_before_ms"] = to_millis(time.time() + span_millis(self.delay) / 1000)
        if self.not_before is not None:
            said["not_before_ms"] = to_millis(self.not_before)
        if self.expires_at is not None:
            said["expires_at_ms"] = to_millis(self.expires_at)
        if self.backoff is not None:
            said["backoff_first_ms"], said["backoff_max_ms"] = _backoff(self.backoff)
        for key in ("accept_timeout", "run_limit", "cancel_timeout"):
            span = getattr(self, key)
            if span is not None:
                said[f"{key}_ms"] = span_millis(span)
        return said


#: The bounds of the options that are numbers.
_NUMBERS = {
    "priority": (-(1 << 31), (1 << 31) - 1),
    "slots": (0, U32),
    "crash_budget": (0, U16),
    "retries": (0, U16),
}
_WORDS = {"on_lost": ("requeue", "pause", "fail"), "on_broken": ("cancel", "run", "hold")}


def _backoff(backoff: Any) -> tuple[int, int]:
    try:
        first, longest = backoff
    except (TypeError, ValueError):
        raise BadSetting(f"backoff is {backoff!r}: pass the first delay and the longest, such as (1, 300)") from None
    return span_millis(first), span_millis(longest)


_AFTER_ADVICE = "pass a handle, an id, a name or tenure.After(…)"
_After = tuple[Optional[str], Optional[str], Optional[int], str]


def _after(awaited: Union[Awaited, Iterable[Awaited]]) -> list[_After]:
    # What was mapped is iterable too, but it is one thing to wait for.
    if isinstance(awaited, (str, After)) or hasattr(awaited, "id") or hasattr(awaited, "arrays"):
        awaited = [awaited]  # type: ignore[list-item]
    if not isinstance(awaited, Iterable):
        raise BadSetting(f"after is {awaited!r}: {_AFTER_ADVICE}")
    said: list[_After] = []
    for one in awaited:
        if isinstance(one, After):
            said.append((one.task, one.name, one.index, one.condition))
        elif isinstance(one, str):
            said.append((one, None, None, "completed") if _ID.fullmatch(one) else (None, one, None, "completed"))
        elif hasattr(one, "arrays"):
            said += [(array.id, None, None, "completed") for array in one.arrays]
        elif hasattr(one, "id"):
            said.append((one.id, None, None, "completed"))
        else:
            raise BadSetting(f"after has {one!r}: {_AFTER_ADVICE}")
    return said


def to_bytes(body: Body) -> bytes:
    """The bytes of a body."""
    if isinstance(body, bytes):
        return body
    if isinstance(body, str):
        return body.encode()
    if isinstance(body, (bytearray, memoryview)):
        return bytes(body)
    raise BadSetting(f"a body is bytes or text, not {type(body).__name__}: encode it, or use @app.task")


def quantities(resources: Mapping[str, Quantity]) -> dict[str, str]:
    """Quantities as the native client reads them."""
    if not isinstance(resources, Mapping):
        raise BadSetting(f"resources is {resources!r}: pass a dict such as {{'gpus': 0.5}}")
    return {name: _quantity(name, value) for name, value in resources.items()}


def _quantity(name: str, value: Quantity) -> str:
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        raise BadSetting(f"{name} is {value!r}: pass a number, or a text such as '8GB'")
    if isinstance(value, float):
        # Not in powers of ten, which the broker's client does not read.
        return f"{value:.3f}" if round(value, 3) == value else repr(value)
    return str(value)


def seconds(span: Span) -> float:
    """A span in seconds."""
    if isinstance(span, timedelta):
        return span.total_seconds()
    if isinstance(span, str) or not hasattr(span, "__float__"):
        raise BadSetting(f"{span!r} is no duration: pass seconds, or a timedelta")
    return float(span)


def span_millis(span: Span) -> int:
    """A span in milliseconds."""
    millis = int(seconds(span) * 1000)
    if millis < 0:
        raise BadSetting(f"the duration {span} is negative")
    return millis


def maybe_millis(span: Optional[Span]) -> Optional[int]:
    """A span in milliseconds, if there is one."""
    return None if span is None else span_millis(span)
