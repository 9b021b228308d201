"""How a handler ended, in the words of the broker."""

from __future__ import annotations

import asyncio
import logging
from typing import Any, Callable

from . import _native
from ._failure import pack_failure
from ._text import encodable, text_of
from .context import Fail, GiveBack, TaskInterrupted
from .errors import CannotEncode
from .submission import to_bytes

log = logging.getLogger("tenure.worker")


def returned(task: _native.Task, result: Any) -> None:
    """The handler returned."""
    _surely(task, lambda: _report_result(task, result))


def raised(task: _native.Task, error: BaseException, final: bool = False) -> None:
    """The handler raised."""
    _surely(task, lambda: _report_exception(task, error, final))


def _surely(task: _native.Task, report: Callable[[], None]) -> None:
    """Ends the attempt even if its end cannot be reported, which would occupy the slot without end."""
    try:
        report()
    except BaseException as error:
        name = encodable(type(error).__name__)
        log.error("the end of a handler could not be reported", extra={"task": task.id, "error": name})
        task.fail(1, f"the end of the handler could not be reported: {name}", b"", False, False)


def _report_result(task: _native.Task, result: Any) -> None:
    if result is None:
        task.complete(b"")
        return
    try:
        encoded = to_bytes(result)
    except Exception:
        kind = type(result).__name__
        why = CannotEncode(f"the handler returned {kind}, which is neither bytes nor text: encode it")
        _report_exception(task, why, final=True)
        return
    task.complete(encoded)


def _report_exception(task: _native.Task, error: BaseException, final: bool) -> None:
    if isinstance(error, (TaskInterrupted, asyncio.CancelledError)) and interrupted(task):
        return
    if isinstance(error, GiveBack):
        task.give_back(text_of(error) or None)
    elif isinstance(error, Fail):
        task.fail(error.exit_code, text_of(error), error.result, error.final, False)
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
