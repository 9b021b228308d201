"""The exceptions of this package. Each class says what to do about it.

>>> import tenure
>>> issubclass(tenure.WrongKey, tenure.TenureError)
True
"""

from __future__ import annotations

import json
from typing import Any, Optional


class TenureError(Exception):
    """The base class of all exceptions of this package.

    ``transient`` says whether the same request may succeed later without a change.
    """

    transient = False
    #: The refusal's stable code, if the broker refused (``spec/errors.md``).
    code: Optional[str] = None
    #: What the broker said about it, by name.
    facts: dict[str, Any]

    def __init__(self, message: str = "", code: Optional[str] = None, facts: Optional[dict[str, Any]] = None):
        super().__init__(message)
        self.code = code
        self.facts = facts or {}


class Unreachable(TenureError, ConnectionError):
    """No broker answered in time. Nothing was sent. Is ``tenure serve`` running at that address?"""

    transient = True


class ConnectionLost(TenureError, ConnectionError):
    """The connection broke."""

    transient = True


class UnknownOutcome(TenureError):
    """The connection broke after the request was sent: it may or may not have been done. Check before you repeat it.

    The client itself repeats submissions that have a name, so they never raise this.
    """


class WrongAddress(TenureError, ValueError):
    """The address cannot be read. Write ``host:port``, ``host``, ``unix:/path`` or ``tls://host:port?ca=FILE``."""


class WrongVersion(TenureError):
    """The peer is not a broker, or has another version. Check the address, and upgrade the older side."""


class WrongKey(TenureError, PermissionError):
    """The broker does not accept this key, or the key does not allow this. Pass another one with ``key=``."""


class BodyTooLarge(TenureError, ValueError):
    """The body is larger than the broker accepts. Put the data elsewhere and submit a reference to it."""


class BadSetting(TenureError, ValueError):
    """An invalid setting or argument. Nothing was sent."""


class Refused(TenureError):
    """The broker refused the request and changed nothing. ``code`` is the error code."""


class UnknownTask(Refused, LookupError):
    """No task has this id or name: it never existed, or it ended long ago and was forgotten."""


class NoListener(Refused, LookupError):
    """No program listens at the address of a call, or has subscribed to the topic of a request."""


class TooLate(Refused, TimeoutError):
    """A call or request timed out without an answer."""

    transient = True


class NameTaken(Refused):
    """The name, the id or the worker is in use by something else."""


class StaleAttempt(Refused):
    """The attempt is over: another worker may have the task already. Stop working on it."""


class WrongState(Refused):
    """The state of the task does not allow this."""


class Busy(Refused):
    """The broker is full, draining, or out of disk. The same request may succeed later."""

    transient = True


class Closed(TenureError):
    """The client or worker was closed by this program."""


class Forked(TenureError):
    """The object belongs to the parent process. Make a new one after ``fork``."""


class CannotEncode(TenureError, TypeError):
    """An argument or result cannot be encoded. See :mod:`tenure.codec` for what can."""


class CannotDecode(TenureError, ValueError):
    """The bytes cannot be decoded. Check that both programs run the same code."""


class TaskFailed(TenureError):
    """A task has failed. ``str()`` is its message, with the traceback of the worker if it was a Python exception."""

    def __init__(
        self,
        message: str,
        *,
        task: str = "",
        exit_code: int = 1,
        worker: Optional[str] = None,
        result: bytes = b"",
        type_name: Optional[str] = None,
        traceback: Optional[str] = None,
    ):
        super().__init__(message)
        self.task = task
        self.exit_code = exit_code
        self.worker = worker
        self.result = result
        #: The name of the exception's class in the worker, with its module.
        self.type_name = type_name
        #: The traceback in the worker, as text.
        self.traceback = traceback

    def __str__(self) -> str:
        message = super().__str__()
        return f"{message}\n\n{self.traceback}" if self.traceback else message

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self), (super().__str__(),), self.__dict__)


class ResultNotEncodable(TaskFailed):
    """The task completed, but its return value cannot be encoded. See :mod:`tenure.codec` for what can."""


class ResultTooLarge(TaskFailed):
    """The task completed, but its result is larger than the broker accepts. Store it elsewhere and return a reference
    to it.
    """


class TaskCancelled(TenureError):
    """The task was cancelled, so it has no result."""

    def __init__(self, message: str, *, task: str = ""):
        super().__init__(message)
        self.task = task


class ResultTimeout(TenureError, TimeoutError):
    """Timed out waiting for the task. The task keeps running; ask again."""

    transient = True


_KINDS: dict[str, type[TenureError]] = {
    "unreachable": Unreachable,
    "lost": ConnectionLost,
    "unknown-outcome": UnknownOutcome,
    "protocol": WrongVersion,
    "bad-address": WrongAddress,
    "too-large": BodyTooLarge,
    "bad-setting": BadSetting,
    "closed": Closed,
    "forked": Forked,
}

#: What to do, where the native client's message does not say it.
_ADVICE = {"too-large": ": put the data elsewhere and submit a reference to it"}

_CODES: dict[str, type[TenureError]] = {
    "unknown-task": UnknownTask,
    "unknown-name": UnknownTask,
    "id-taken": NameTaken,
    "name-taken": NameTaken,
    "worker-taken": NameTaken,
    "stale-attempt": StaleAttempt,
    "wrong-state": WrongState,
    "full": Busy,
    "disk-full": Busy,
    "draining": Busy,
    "journal-away": Busy,
    "deposed": Busy,
    "elsewhere": Busy,
    "too-slow": Busy,
    "not-allowed": WrongKey,
    "nobody-there": NoListener,
    "no-responders": NoListener,
    "too-late": TooLate,
    "bad-version": WrongVersion,
    "too-long": BodyTooLarge,
}


def make(kind: str, message: str, code: Optional[str], facts: Optional[str]) -> TenureError:
    """Makes the exception for an error of the native client, which calls this."""
    if kind == "refused":
        made = _CODES.get(code or "", Refused)
        return made(message, code, json.loads(facts) if facts else None)
    return _KINDS.get(kind, TenureError)(message + _ADVICE.get(kind, ""))
