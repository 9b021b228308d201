"""Broadcasts. They are sent in their order by a thread of their own, and kept while the broker is away."""

from __future__ import annotations

import contextlib
import threading
import uuid
from collections import deque
from typing import Any, Callable, Optional

import kiwipy

from .. import _native
from .._fields import FieldLogger
from ..errors import Closed, TenureError
from ._link import Link, pack, run, short_name, unpack

log = FieldLogger("tenure.kiwi")

#: Broadcasts that wait for the broker. When there are more, the oldest are dropped.
UNSENT_MAX = 10_000
UNSENT_BYTES_MAX = 16 * 1024 * 1024
#: Broadcasts that wait for the subscribers here. When there are more, the native client keeps some, and drops the rest.
WAITING_MAX = 10_000
WAITING_BYTES_MAX = 16 * 1024 * 1024
#: How long a sender waits for its broadcast to leave. Longer, and it goes by itself.
SENT_WITHIN = 0.5
#: Without a subscriber the communicator hears nothing any more after this time.
IDLE_SECONDS = 10.0
AGAIN_SECONDS = 0.5


class Broadcasts:
    """The broadcast part of a communicator."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._subject = short_name(link.scope)
        self._subscribers: dict[Any, Callable[..., Any]] = {}
        self._receiver: Optional[_native.BroadcastReceiver] = None
        self._hearing = threading.Event()
        self._asked = False
        self._lock = threading.Lock()
        self._waiting = 0
        self._waiting_bytes = 0
        self._is_full = False
        self._unsent: deque[_Unsent] = deque()
        self._unsent_bytes = 0
        #: The first of the unsent ones, while the native client has it. It may have left, so it is not dropped.
        self._in_flight: Optional[_Unsent] = None
        self._dropped = 0
        self._changed = threading.Condition()
        self._sender: Optional[threading.Thread] = None

    def add(self, subscriber: Callable[..., Any], identifier: Any) -> Any:
        """Registers a subscriber; here at once, at the broker as soon as it hears."""
        identifier = identifier if identifier is not None else uuid.uuid4().hex
        with self._lock:
            if identifier in self._subscribers:
                raise kiwipy.DuplicateSubscriberIdentifier(f"broadcast identifier {identifier!r} is in use")
            self._subscribers[identifier] = subscriber
            ask, self._asked = not self._asked, True
        if ask:
            self._hear()
        self._link.wait(self._hearing)
        return identifier

    def remove(self, identifier: Any) -> None:
        """Removes a subscriber."""
        with self._lock:
            if self._subscribers.pop(identifier, None) is None:
                raise ValueError(f"unknown broadcast subscriber {identifier!r}")
            idle = not self._subscribers
        if idle:
            self._link.dispatcher.later(IDLE_SECONDS, self._rest)

    def send(self, body: Any, sender: Any, subject: Any, correlation: Any) -> bool:
        """Sends a broadcast. It never fails because the broker is away."""
        told = pack({"body": self._link.encode(body), "sender": sender, "subject": subject, "correlation": correlation})
        unsent = _Unsent(told)
        with self._changed:
            self._unsent.append(unsent)
            self._unsent_bytes += len(told)
            while (len(self._unsent) > UNSENT_MAX or self._unsent_bytes > UNSENT_BYTES_MAX) and self._drop_oldest():
                pass
            if self._sender is None:
                name = f"tenure-kiwi-{self._link.id[:6]}-broadcasts"
                self._sender = threading.Thread(target=self._send, name=name, daemon=True)
                self._sender.start()
            self._changed.notify_all()
        if self._link.is_connected() and not self._link.dispatcher.is_callback_thread():
            unsent.sent.wait(SENT_WITHIN)
        return True

    def close(self, seconds: float) -> None:
        """Sends what waits if that is possible within this time, and hears nothing any more."""
        with self._changed:
            if self._link.is_connected():
                self._changed.wait_for(lambda: not self._unsent, seconds)
        with self._lock:
            self._subscribers.clear()
            receiver, self._receiver = self._receiver, None
        _close(receiver)

    def stop(self) -> None:
        """Ends the thread, after the communicator was closed."""
        with self._changed:
            self._changed.notify_all()

    def _drop_oldest(self) -> bool:
        """Whether there was one to drop."""
        index = 0 if self._in_flight is None else 1
        if index >= len(self._unsent):
            return False
        oldest = self._unsent[index]
        del self._unsent[index]
        self._unsent_bytes -= len(oldest.told)
        oldest.sent.set()
        if self._dropped == 0:
            log.warning("the broker is away and the buffer is full: the oldest broadcasts are dropped")
        self._dropped += 1
        return True

    def _send(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._unsent or self._link.closed)
                if self._link.closed:
                    return
                unsent = self._in_flight = self._unsent[0]
            again = self._send_one(unsent)
            with self._changed:
                self._in_flight = None
                if not again:
                    self._unsent.popleft()
                    self._unsent_bytes -= len(unsent.told)
                    unsent.sent.set()
                    self._changed.notify_all()
                else:
                    self._changed.wait_for(lambda: self._link.closed, AGAIN_SECONDS)

    def _send_one(self, unsent: _Unsent) -> bool:
        """Whether it has to be sent again."""
        try:
            self._link.client.broadcast(self._subject, unsent.told, None, None)
        except Closed:
            return False
        except TenureError as error:
            if error.transient:
                return True
            # It may have been sent, or the broker does not take it: once is enough.
            log.warning("a broadcast was lost", extra={"error": str(error)})
        return False

    def _hear(self) -> None:
        if not self._link.closed:
            self._link.dispatcher.ask(
                lambda via: self._link.client.receive_broadcasts(self._subject, None, via), self._heard
            )

    def _heard(self, receiver: Any, error: Optional[BaseException]) -> None:
        if error is not None:
            if not isinstance(error, Closed):
                self._link.dispatcher.later(AGAIN_SECONDS, self._hear)
            return
        with self._lock:
            self._receiver = receiver
        self._hearing.set()
        self._take(receiver)

    def _rest(self) -> None:
        with self._lock:
            if self._subscribers or self._receiver is None:
                return
            receiver, self._receiver, self._asked = self._receiver, None, False
            self._hearing.clear()
        _close(receiver)

    def _take(self, receiver: _native.BroadcastReceiver) -> None:
        def came(batch: Any, error: Optional[BaseException]) -> None:
            if error is None and batch is not None:
                size = sum(len(one[1]) for one in batch if not isinstance(one, int))
                with self._lock:
                    self._waiting += len(batch)
                    self._waiting_bytes += size
                    self._is_full = self._waiting > WAITING_MAX or self._waiting_bytes > WAITING_BYTES_MAX
                    is_full = self._is_full
                self._link.dispatcher.call(self._handle, receiver, batch, size)
                if not is_full:
                    self._take(receiver)

        self._link.dispatcher.ask(lambda via: receiver.next(None, via), came)

    def _handle(self, receiver: _native.BroadcastReceiver, batch: list[Any], size: int) -> None:
        try:
            for one in batch:
                if isinstance(one, int):
                    log.warning("broadcasts came faster than they were handled", extra={"missed": one})
                    continue
                self._deliver(one[1])
        finally:
            with self._lock:
                self._waiting -= len(batch)
                self._waiting_bytes -= size
                has_room = self._is_full and self._waiting == 0
                self._is_full = self._is_full and not has_room
            if has_room and self._receiver is receiver:
                self._take(receiver)

    def _deliver(self, data: bytes) -> None:
        try:
            told = unpack(data)
            body = self._link.decode(told["body"])
        except Exception:
            log.exception("a broadcast cannot be read")
            return
        with self._lock:
            subscribers = list(self._subscribers.items())
        for identifier, subscriber in subscribers:
            if identifier not in self._subscribers:
                continue
            try:
                run(subscriber, self._link.communicator, body, told["sender"], told["subject"], told["correlation"])
            except BaseException:
                log.exception("a broadcast subscriber failed", extra={"identifier": str(identifier)})


class _Unsent:
    def __init__(self, told: bytes) -> None:
        self.told = told
        self.sent = threading.Event()


def _close(receiver: Optional[_native.BroadcastReceiver]) -> None:
    if receiver is not None:
        # The interpreter may exit: the broker notices by itself.
        with contextlib.suppress(TenureError):
            receiver.close()
