"""Remote procedure calls.

The first call to a subscriber is answered with its result if that is there within :data:`QUICK` seconds, else with a
ticket. With the ticket the caller waits in a second call, which the broker ends at once if the receiver disappears.
"""

from __future__ import annotations

import itertools
import logging
import threading
import time
import uuid
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from typing import Any, Callable, Optional

import kiwipy

from .. import _native
from .._text import text_of
from ..errors import Closed, NoListener, TenureError
from ._chain import CANCELLED, PENDING_AFTER, Chain, End, Mirror
from ._link import Link, pack, run, unpack
from ._listen import Address

log = logging.getLogger("tenure.kiwi")

#: A result that takes longer is promised with a ticket, so that the caller knows that its call has arrived.
QUICK = 0.003
#: The broker refuses a call without a receiver at once. A call that is not refused by then has arrived, even if the
#: receiver's interpreter is too busy to say so.
ARRIVED_AFTER = 1.0
#: Results that wait to be fetched. The oldest goes first; its caller has disappeared.
TICKETS_MAX = 10_000


class Rpc:
    """The RPC part of a communicator."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._subscribers: dict[str, Address] = {}
        self._tickets: dict[str, _Ticket] = {}
        self._lock = threading.Lock()
        self._own: Optional[Address] = None
        #: Called with what another communicator tells about a task that this one sent.
        self.on_task_pending: Callable[[str, int], None] = lambda task, depth: None

    @property
    def own_address(self) -> str:
        """Where this communicator hears from others."""
        return self._link.address("client", self._link.id)

    def open_own_address(self) -> None:
        """Makes sure that this communicator can be heard of."""
        with self._lock:
            if self._own is None:
                self._own = Address(self._link, self.own_address, self._told)
        self._own.wait()

    def add(self, subscriber: Callable[..., Any], identifier: Any) -> Any:
        """Registers a subscriber; here at once, at the broker as soon as it hears."""
        identifier = identifier if identifier is not None else uuid.uuid4().hex
        name = str(identifier)
        self.open_own_address()
        with self._lock:
            if name in self._subscribers:
                raise kiwipy.DuplicateSubscriberIdentifier(f"RPC identifier {name!r} is in use by this communicator")
            address = Address(self._link, self._link.address("rpc", name), lambda call: self._called(subscriber, call))
            self._subscribers[name] = address
        address.wait()
        return identifier

    def remove(self, identifier: Any) -> None:
        """Removes a subscriber."""
        with self._lock:
            address = self._subscribers.pop(str(identifier), None)
        if address is None:
            raise ValueError(f"unknown RPC subscriber {identifier!r}")
        address.close()

    def send(self, recipient: Any, message: Any) -> Future[Any]:
        """Calls a subscriber, in this or another program."""
        name = self._link.address("rpc", recipient)
        body = pack({"do": "call", "body": self._link.encode(message)})
        connected = self._link.is_connected()
        mirror = Mirror()
        arrived: Future[Any] = Future()

        def answered(value: Any, error: Optional[BaseException]) -> None:
            if not arrived.done():
                if error is None and value[0] == "cancelled":
                    error = NoListener("its subscriber has just left")
                if error is None:
                    arrived.set_result(None)
                else:
                    arrived.set_exception(error)
            self._answered(mirror, value, error)

        self._link.dispatcher.ask(lambda via: self._link.client.call(name, body, None, via), answered)
        try:
            arrived.result(ARRIVED_AFTER if connected else self._link.timeout + 1.0)
        except FutureTimeout:
            # The broker has not refused it.
            if not connected:
                raise kiwipy.UnroutableError(f"the broker does not answer: no call to {recipient!r}") from None
        except NoListener as error:
            raise kiwipy.UnroutableError(f"no subscriber has the identifier {recipient!r}") from error
        except Closed as error:
            raise kiwipy.CommunicatorClosed() from error
        except TenureError as error:
            raise kiwipy.UnroutableError(f"the call to {recipient!r} failed: {error}") from error
        return mirror.root

    def close(self) -> None:
        """Takes no calls any more. What is not answered yet is given up."""
        with self._lock:
            addresses = [*self._subscribers.values()]
            if self._own is not None:
                addresses.append(self._own)
            self._subscribers.clear()
        for address in addresses:
            address.close()
        # Not before: a caller that asks for a result until then must learn that no program listens.
        self._tickets.clear()

    def _answered(self, mirror: Mirror, value: Any, error: Optional[BaseException]) -> None:
        """What came back goes on, on the callback thread: callbacks of futures belong to the program."""
        self._link.dispatcher.call(self._take_answer, mirror, value, error)

    def _take_answer(self, mirror: Mirror, value: Any, error: Optional[BaseException]) -> None:
        if error is not None:
            gone = f"the receiver of the call has disappeared: {error}"
            failure = kiwipy.UnroutableError(gone) if isinstance(error, NoListener) else kiwipy.DeliveryFailed(gone)
            mirror.finish(mirror.depth, End("exception", failure))
            return
        outcome, body = value
        if outcome == "error":
            mirror.finish(mirror.depth, End("exception", kiwipy.DeliveryFailed(body.decode(errors="replace"))))
            return
        if outcome != "result":
            mirror.finish(mirror.depth, End("cancelled"))
            return
        told = unpack(body)
        if "end" in told:
            mirror.finish(told["depth"], self._link.decode_end(told["end"]))
            return
        if told["depth"] > mirror.depth and not told.get("early"):
            mirror.advance(told["depth"])
        wait = pack({"do": "wait", "ticket": told["ticket"], "known": mirror.depth})
        at = told["at"]
        self._link.dispatcher.ask(
            lambda via: self._link.client.call(at, wait, None, via),
            lambda value, error: self._answered(mirror, value, error),
        )

    def _called(self, subscriber: Callable[..., Any], call: _native.Call) -> None:
        try:
            message = self._link.decode(unpack(call.body)["body"])
        except Exception as error:
            self._answer(call, {"depth": 0, "end": self._link.encode_end(End("exception", error))})
            return
        ticket = _Ticket(self._link)
        ticket.waits(call, known=-1)
        try:
            result = run(subscriber, self._link.communicator, message)
        except BaseException as error:
            kind = End("cancelled") if isinstance(error, CANCELLED) else End("exception", error)
            ticket.fail(kind)
            return
        ticket.follow(result)
        if ticket.open:
            with self._lock:
                while len(self._tickets) >= TICKETS_MAX:
                    self._tickets.pop(next(iter(self._tickets)))
                self._tickets[ticket.id] = ticket
            ticket.on_end = lambda: self._tickets.pop(ticket.id, None)
            self._link.dispatcher.later(QUICK, lambda: ticket.promise(self.own_address))

    def _told(self, call: _native.Call) -> None:
        told = unpack(call.body)
        if told["do"] == "pending":
            self._answer(call, {})
            self.on_task_pending(told["task"], told["depth"])
            return
        ticket = self._tickets.get(told["ticket"])
        if ticket is None:
            end = End("exception", "the result is not kept any more")
            self._answer(call, {"depth": told["known"], "end": self._link.encode_end(end)})
        else:
            ticket.waits(call, told["known"])

    def _answer(self, call: _native.Call, told: dict[str, Any]) -> None:
        answer(self._link, call, told)


class _Ticket:
    """The result of one call that a subscriber works on, and who waits for it."""

    _numbers = itertools.count(1)

    def __init__(self, link: Link) -> None:
        self._link = link
        self.id = f"{link.id[:8]}-{next(_Ticket._numbers)}"
        self.on_end: Callable[[], Any] = lambda: None
        self._lock = threading.Lock()
        self._call: Optional[_native.Call] = None
        self._known = -1
        self._chain: Optional[Chain] = None
        self._end: Optional[End] = None
        self._depth = 0
        self._changed_at = time.monotonic()
        self._own = ""

    @property
    def open(self) -> bool:
        """Whether a caller still waits for the end."""
        return self._end is None or self._call is not None

    def follow(self, result: Any) -> None:
        """The subscriber returned this."""
        self._chain = Chain(result, self._changed)

    def fail(self, end: End) -> None:
        """The subscriber raised something."""
        self._end = end
        self._tell()

    def waits(self, call: _native.Call, known: int) -> None:
        """Another call waits for the next news."""
        with self._lock:
            self._call, self._known = call, known
        self._tell()
        self._look_later()

    def promise(self, own: str) -> None:
        """The first call has waited long enough: it gets the ticket."""
        self._own = own
        with self._lock:
            if self._known >= 0 or self._end is not None:
                return
            call, self._call = self._call, None
        if call is not None:
            answer(self._link, call, {"depth": 0, "early": True, "ticket": self.id, "at": own})

    def _changed(self, chain: Chain) -> None:
        with self._lock:
            self._depth, self._end, self._changed_at = chain.depth, chain.end, time.monotonic()
        self._tell()
        self._look_later()

    def _look_later(self) -> None:
        if self._end is None and self._known >= 0 and not self._link.closed:
            self._link.dispatcher.later(PENDING_AFTER, self._tell)

    def _tell(self) -> None:
        with self._lock:
            if self._call is None:
                return
            if self._end is not None:
                told = {"depth": self._depth, "end": self._link.encode_end(self._end)}
            elif 0 <= self._known < self._depth and time.monotonic() - self._changed_at >= PENDING_AFTER * 0.9:
                told = {"depth": self._depth, "ticket": self.id, "at": self._own}
            else:
                return
            call, self._call = self._call, None
            ended = self._end is not None
        if ended:
            self.on_end()
        answer(self._link, call, told)


def answer(link: Link, call: _native.Call, told: dict[str, Any]) -> None:
    """Answers a call. It is no error if no caller waits any more."""
    try:
        body = pack(told)
    except TenureError as error:
        why = f"the answer cannot be encoded: {text_of(error)}"
        body = pack({"depth": 0, "end": {"kind": "exception", "value": why}})
    link.dispatcher.ask(lambda via: call.answer("result", body, via), lambda value, error: None)
