"""Addresses at which a communicator takes calls: registered here first, and at the broker as soon as it hears."""

from __future__ import annotations

import contextlib
import threading
from typing import Any, Callable, Optional

from .. import _native
from .._fields import FieldLogger
from ..errors import Closed, TenureError
from ._link import Link

log = FieldLogger("tenure.kiwi")

#: How long to wait before an address that the broker refused is registered again: another client may still have it.
AGAIN_FIRST, AGAIN_MAX = 0.02, 1.0

Called = Callable[[_native.Call], None]


class Address:
    """One address. The native client registers it again after every reconnect."""

    def __init__(self, link: Link, name: str, called: Called) -> None:
        self._link = link
        self.name = name
        self._called = called
        self._listener: Optional[_native.Listener] = None
        self._lock = threading.Lock()
        self._gone = False
        self._known = threading.Event()
        self._complained = False
        self._again = AGAIN_FIRST
        self._listen()

    def wait(self) -> None:
        """Waits until the broker knows the address, unless the broker is away."""
        self._link.wait(self._known)

    def close(self) -> None:
        """Takes no more calls: later callers get :class:`NoListener`."""
        with self._lock:
            self._gone = True
            listener, self._listener = self._listener, None
        if listener is not None:
            _close(listener)

    def _listen(self) -> None:
        if not self._gone and not self._link.closed:
            self._link.dispatcher.ask(lambda via: self._link.client.listen([self.name], via), self._listening)

    def _listening(self, listener: Any, error: Optional[BaseException]) -> None:
        if error is not None:
            if isinstance(error, Closed) or self._gone or self._link.closed:
                return
            if not self._complained:
                self._complained = True
                log.warning("an address is not registered yet", extra={"address": self.name, "error": str(error)})
            self._link.dispatcher.later(self._again, self._listen)
            self._again = min(self._again * 2, AGAIN_MAX)
            return
        with self._lock:
            gone = self._gone
            if not gone:
                self._listener = listener
        if gone:
            _close(listener)
            return
        self._known.set()
        self._take(listener)

    def _take(self, listener: _native.Listener) -> None:
        def came(calls: Any, error: Optional[BaseException]) -> None:
            if error is None and calls is not None:
                self._link.dispatcher.call(self._handle, listener, calls)

        self._link.dispatcher.ask(lambda via: listener.next(None, via), came)

    def _handle(self, listener: _native.Listener, calls: list[_native.Call]) -> None:
        try:
            for call in calls:
                try:
                    if not self._gone:
                        self._called(call)
                except BaseException:
                    log.exception("a call could not be handled")
        finally:
            if not self._gone:
                self._take(listener)


def _close(listener: _native.Listener) -> None:
    # The interpreter may exit, or the connection be closed: the broker forgets the address by itself.
    with contextlib.suppress(TenureError):
        listener.close()
