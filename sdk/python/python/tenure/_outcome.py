"""How a handler ended, in the words of the broker."""

from __future__ import annotations

import asyncio
from typing import Any

from . import _native
from ._failure import pack_failure
from .context import Fail, GiveBack, TaskInterrupted
from .errors import CannotEncode
from .submission import to_bytes


def returned(task: _native.Task, result: Any) -> None:
    """The handler returned."""
    if result is None:
        task.complete(b"")
        return
    try:
        encoded = to_bytes(result)
    except Exception:
        kind = type(result).__name__
        raised(
            task,
            CannotEncode(f"the handler returned {kind}, which is neither bytes nor text: encode it"),
            final=True,
        )
        return
    task.complete(encoded)


def raised(task: _native.Task, error: BaseException, final: bool = False) -> None:
    """The handler raised."""
    if isinstance(error, (TaskInterrupted, asyncio.CancelledError)) and interrupted(task):
        return
    if isinstance(error, GiveBack):
        task.give_back(str(error) or None)
    elif isinstance(error, Fail):
        task.fail(error.exit_code, str(error), error.result, error.final, False)
    else:
        message, result = pack_failure(error)
        task.fail(1, message, result, final or isinstance(error, CannotEncode), False)


def interrupted(task: _native.Task) -> bool:
    """The handler wound down. Returns whether it was asked to."""
    told = task.interrupt()
    if told is None:
        return False
    kind, reason = told
    if kind == "cancel":
        task.confirm_cancelled(b"")
    elif kind == "pause":
        task.confirm_paused(b"")
    else:
        task.give_back(reason or "the worker leaves")
    return True
