"""Exceptions of a worker on their way to the submitter: class, message and traceback as text, never pickled."""

from __future__ import annotations

import re
import traceback as tracebacks
from typing import Any

import msgpack

from ._text import encodable, text_of
from .errors import ResultNotEncodable, ResultTooLarge, TaskFailed
from .records import Ended

#: How much of a traceback travels; its end says what happened, so the beginning is cut off.
TRACEBACK_CHARACTERS_MAX = 64 << 10
_MARK = "tenure.exception"
#: With what the native worker fails a task whose result the broker would not take.
_TOO_LARGE = re.compile(r"the result has \d+ bytes, the broker takes at most \d+: ")


def pack_failure(error: BaseException) -> tuple[str, bytes]:
    """The message for people and the result of a task that failed with this exception."""
    kind = type(error)
    name = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
    text = "".join(tracebacks.format_exception(kind, error, error.__traceback__))
    name, message, text = encodable(name), text_of(error), encodable(text)
    body = {_MARK: 1, "type": name, "message": message, "traceback": text[-TRACEBACK_CHARACTERS_MAX:]}
    return f"{name}: {message}", msgpack.packb(body)


def read_failure(task: str, ended: Ended) -> TaskFailed:
    """The exception for a task that has failed."""
    told: Any = None
    if ended.result:
        try:
            told = msgpack.unpackb(ended.result)
        except Exception:  # Whatever another worker put there.
            told = None
    message = ended.message or f"task {task} failed with exit code {ended.exit_code}"
    if not isinstance(told, dict) or _MARK not in told:
        told = {}
    kind = TaskFailed
    if told.get("type") == "tenure.errors.CannotEncode":
        kind = ResultNotEncodable
    elif _TOO_LARGE.match(message):
        kind = ResultTooLarge
    return kind(
        message,
        task=task,
        exit_code=ended.exit_code,
        worker=ended.worker,
        result=ended.result,
        type_name=told.get("type"),
        traceback=told.get("traceback"),
    )
