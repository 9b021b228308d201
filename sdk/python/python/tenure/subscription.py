"""Messages of topics, through lost connections and restarts of the broker."""

from __future__ import annotations

import enum
import json
import logging
from collections import deque
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import Any, Callable, Optional

from . import _loop, _native
from ._checks import U32, U64, whole
from .errors import BadSetting
from .records import Gap, Message, read, when

log = logging.getLogger("tenure.subscription")


@dataclass(frozen=True)
class ReconnectionPolicy:
    """How a subscription comes back when its broker was gone.

    The delay before a try is ``min(initial_delay_ms * 2**attempt, max_delay_ms)``, and up to ``jitter_factor`` of it
    more.
    """

    #: How many tries may fail in a row before subscription ended: reconnecting failed; 0 for any number.
    max_retries: int = 0
    initial_delay_ms: int = 1_000
    max_delay_ms: int = 30_000
    #: Whether the delay doubles with every try.
    exponential_backoff: bool = True
    #: From 0 to 1.
    jitter_factor: float = 0.1

    def delay_ms(self, attempt: int) -> int:
        """The delay before the try of this number, counted from 0, without its jitter.

        >>> [ReconnectionPolicy().delay_ms(attempt) for attempt in range(7)]
        [1000, 2000, 4000, 8000, 16000, 30000, 30000]
        """
        doublings = min(attempt, 31) if self.exponential_backoff else 0
        return min(self.initial_delay_ms << doublings, self.max_delay_ms)

    def said(self) -> tuple[int, int, int, bool, float]:
        """What goes to the native client."""
        whole("max_retries", self.max_retries, 0, U32)
        whole("initial_delay_ms", self.initial_delay_ms, 0, U64)
        whole("max_delay_ms", self.max_delay_ms, 0, U64)
        if not 0 <= self.jitter_factor <= 1:
            raise BadSetting(f"jitter_factor is {self.jitter_factor!r}: pass a number from 0 to 1")
        return (
            self.max_retries,
            self.initial_delay_ms,
            self.max_delay_ms,
            self.exponential_backoff,
            self.jitter_factor,
        )


class GapRecoveryMode(enum.Enum):
    """What comes after an absence."""

    #: Nothing: the subscription goes on with new messages.
    NONE = "none"
    #: The last known values.
    RETAINED_ONLY = "retained"
    #: Everything that was missed, as far as the broker keeps it.
    REPLAY_BUFFER = "replay"


class ConnectionState(enum.Enum):
    """How the connection of a subscription is."""

    CONNECTING = "connecting"
    CONNECTED = "connected"
    #: It was lost, and is tried again.
    RECONNECTING = "reconnecting"
    #: It is over.
    DISCONNECTED = "disconnected"


#: Is called with the state and what went wrong.
OnState = Callable[[ConnectionState, Optional[str]], None]
#: Is called with the number that was expected, the number that came or comes next, and the topic.
OnGap = Callable[[int, int, str], None]

#: How many messages are handed over at once, unless the subscription has a name of its own: then one by one, so that a
#: message counts as taken only when the program asks for the next.
_BATCH = 256


class _Follower:
    """What both kinds of subscriptions do with what comes."""

    def __init__(
        self,
        native: _native.Subscriber,
        topics: list[str],
        named: bool,
        policy: ReconnectionPolicy,
        on_state: list[OnState],
        on_gap: list[OnGap],
    ) -> None:
        self._native = native
        self._topics = topics
        self._policy = policy
        self._limit = 1 if named else _BATCH
        self._on_state = on_state
        self._on_gap = on_gap
        self._ready: deque[Message] = deque()
        self._attempt = 0
        self._ended = False
        #: The highest number seen so far.
        self.last_sequence_number = 0
        #: How many messages are known to be missed.
        self.missed_messages = 0
        log.info("subscribed", extra=self._fields())

    @property
    def id(self) -> str:
        """The name of the subscription, by which it can be taken up again."""
        return self._native.id()

    @property
    def missed(self) -> Optional[int]:
        """How many messages were published while this subscription was away before; nothing if that is unknown."""
        return self._native.missed()

    def close(self) -> None:
        """Ends the subscription. A thread or coroutine that waits for it stops waiting."""
        self._ended = True
        self._native.close()

    def _fields(self, **more: Any) -> dict[str, Any]:
        return {
            "subscription_id": self._native.id(),
            "topics": self._topics,
            "last_sequence_number": self.last_sequence_number,
            **more,
        }

    def _take(self, batch: Optional[list[tuple[Any, ...]]]) -> None:
        if batch is None:
            self._ended = True
            return
        for kind, *told in batch:
            if kind == "message":
                self._message(told)
            elif kind == "gap":
                self._gap(read(Gap, json.loads(told[0])))
            elif kind == "state":
                self._state(ConnectionState(told[0]), told[1])
            elif kind == "warning":
                log.warning("the subscription is too slow", extra=self._fields(**json.loads(told[0])))
            elif kind == "ended":
                log.info("the subscription has ended", extra=self._fields(reason=told[0]))
                self._ended = True

    def _message(self, told: list[Any]) -> None:
        kind, topic, sequence, payload, published, source, content_type, correlation, reply_to = told
        self._attempt = 0
        self.last_sequence_number = max(self.last_sequence_number, sequence)
        at = when(published)
        self._ready.append(Message(topic, sequence, payload, at, kind, source, content_type, correlation, reply_to))
        if log.isEnabledFor(logging.DEBUG):
            log.debug("a message was received", extra=self._fields(topic=topic, sequence_number=sequence))

    def _gap(self, gap: Gap) -> None:
        missed = gap.last_missed - gap.first_missed + 1
        self.missed_messages += missed
        log.warning("messages were missed", extra=self._fields(gap=missed, topic=gap.topic))
        for told in self._on_gap:
            _safely(told, gap.first_missed, gap.last_missed + 1, gap.topic)

    def _state(self, state: ConnectionState, error: Optional[str]) -> None:
        if state is ConnectionState.RECONNECTING:
            delay_ms = self._policy.delay_ms(self._attempt)
            self._attempt += 1
            fields = self._fields(attempt=self._attempt, delay_ms=delay_ms, error=error)
            log.warning("the connection is tried again", extra=fields)
        elif state is ConnectionState.DISCONNECTED and error is not None:
            log.error("the subscription has failed", extra=self._fields(error=error))
        else:
            log.info("the connection is %s", state.value, extra=self._fields(error=error))
        for told in self._on_state:
            _safely(told, state, error)


def _safely(told: Callable[..., None], *args: Any) -> None:
    try:
        told(*args)
    except Exception:
        log.exception("a callback failed")


class Subscription(_Follower, AsyncIterator[Message]):
    """Messages as they are published: an async iterator, and an async context manager that ends it. Nothing is lost if
    a wait for it is cancelled.
    """

    _taking: Optional[_loop.Taking] = None

    async def __anext__(self) -> Message:
        while not self._ready:
            if self._ended:
                raise StopAsyncIteration
            if self._taking is None:
                self._taking = _loop.Taking(lambda via: self._native.next(self._limit, None, via))
            self._take(await self._taking.take())
        return self._ready.popleft()

    async def leave(self) -> None:
        """Leaves the subscription, so that the next one with its id goes on with what was not taken."""
        self._ended = True
        await _loop.ask(self._native.leave)

    async def __aenter__(self) -> Subscription:
        return self

    async def __aexit__(self, *_: Any) -> None:
        self.close()


class SyncSubscription(_Follower, Iterator[Message]):
    """Messages as they are published: an iterator, and a context manager that ends it."""

    def __next__(self) -> Message:
        message = self.next(None)
        if message is None:
            raise StopIteration
        return message

    def next(self, timeout: Optional[float]) -> Optional[Message]:
        """The next message; nothing when the time is up or the subscription is over."""
        while not self._ready:
            if self._ended:
                return None
            limit = None if timeout is None else max(0, int(timeout * 1000))
            batch = self._native.next(self._limit, limit)
            self._take(batch)
            if batch == []:
                return None
        return self._ready.popleft()

    def leave(self) -> None:
        """Leaves the subscription, so that the next one with its id goes on with what was not taken."""
        self._ended = True
        self._native.leave()

    def __enter__(self) -> SyncSubscription:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()


def recovery_word(mode: GapRecoveryMode) -> str:
    """The word of the wire for a recovery mode."""
    if not isinstance(mode, GapRecoveryMode):
        raise BadSetting(f"gap_recovery_mode is {mode!r}: pass a GapRecoveryMode")
    return mode.value


def policy_of(policy: ReconnectionPolicy) -> ReconnectionPolicy:
    """Checks that it is one."""
    if not isinstance(policy, ReconnectionPolicy):
        raise BadSetting(f"reconnection_policy is {policy!r}: pass a ReconnectionPolicy")
    return policy
