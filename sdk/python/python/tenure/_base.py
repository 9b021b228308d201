"""What both clients are before they say anything: settings, callbacks, and the connection of this process."""

from __future__ import annotations

from typing import Optional

from . import _native, _process
from ._settings import settings
from .submission import Span
from .subscription import GapRecoveryMode, OnGap, OnState, ReconnectionPolicy


class ClientBase:
    """The part of a client that neither waits nor awaits."""

    def __init__(
        self,
        address: Optional[str] = None,
        *,
        namespace: Optional[str] = None,
        key: Optional[str] = None,
        identity: Optional[str] = None,
        connect_timeout: Span = 30.0,
        reconnection_policy: Optional[ReconnectionPolicy] = None,
        gap_recovery_mode: GapRecoveryMode = GapRecoveryMode.NONE,
    ) -> None:
        """``connect_timeout`` is how long a request waits for a connection; ``identity`` the name under which this
        client's submissions can be watched; the last two are for subscriptions.
        """
        self._settings = settings(address, namespace, key, identity, connect_timeout)
        self._native: Optional[_native.Client] = None
        self._generation = _process.generation()
        self._closed = False
        self._reconnection_policy = reconnection_policy or ReconnectionPolicy()
        self._gap_recovery_mode = gap_recovery_mode
        self._on_state: list[OnState] = []
        self._on_gap: list[OnGap] = []
        self._new_lock()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._settings!r})"

    @property
    def is_connected(self) -> bool:
        """Whether a connection stands at this moment."""
        native = self._here()
        return native is not None and native.is_connected()

    def on_connection_state_change(self, told: OnState) -> OnState:
        """Calls this with the state and the error when the connection of a subscription comes or goes."""
        self._on_state.append(told)
        return told

    def on_gap_detected(self, told: OnGap) -> OnGap:
        """Calls this with the number expected, the number that comes next and the topic when messages were missed."""
        self._on_gap.append(told)
        return told

    def _here(self) -> Optional[_native.Client]:
        """The connection that this process has made; a forked child has none at first."""
        return self._native if self._generation == _process.generation() else None

    def _make_again(self) -> None:
        """After a fork: forgets the connection of the parent, and locks that its threads may hold."""
        with _process.lock:
            if self._generation != _process.generation():
                self._native = None
                self._new_lock()
                self._generation = _process.generation()

    def _new_lock(self) -> None:
        raise NotImplementedError

    def _close(self) -> None:
        native, self._native, self._closed = self._here(), None, True
        if native is not None:
            native.close()
