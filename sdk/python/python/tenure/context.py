"""The task of a handler: its data, and how to report progress, checkpoints and output."""

from __future__ import annotations

import asyncio
import contextvars
import io
import json
import logging
import threading
import time
from collections.abc import MutableMapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Callable, Optional, TextIO, cast

from . import _loop, _native
from .errors import BadSetting, TenureError
from .records import Dependency, Terms, read, when
from .submission import Body, Span, span_millis, to_bytes

log = logging.getLogger("tenure.task")

#: The most bytes of one piece of output.
LOG_PIECE_BYTES_MAX = 64 << 10


@dataclass(frozen=True)
class Interrupt:
    """Why a handler should wind down.

    ``leaving``: the worker leaves soon. ``pause``, ``cancel``: a client asked for that. ``stop``: the attempt is over,
    whatever is returned is not reported, and another worker may have the task already.
    """

    kind: str
    reason: Optional[str] = None


@dataclass(frozen=True)
class TaskEnd:
    """How a task ended: ``completed``, ``failed`` or ``cancelled``."""

    task: str
    state: str


class TaskInterrupted(TenureError):
    """Raised by :meth:`Context.check`. A handler that lets it pass confirms the cancellation or the pause."""

    def __init__(self, interrupt: Interrupt):
        super().__init__(f"the task should wind down: {interrupt.kind} ({interrupt.reason or 'no reason given'})")
        self.interrupt = interrupt

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self), (self.interrupt,), self.__dict__)


class Fail(TenureError):
    """Raised by a handler to fail its task with an exit code, or for good.

    A task with retries left is tried again, unless the failure is final.
    """

    def __init__(self, message: str, *, exit_code: int = 1, final: bool = False, result: Body = b""):
        super().__init__(message)
        self.exit_code = exit_code
        self.final = final
        self.result = to_bytes(result)


class GiveBack(TenureError):
    """Raised by a handler that does not want to finish its task now. The task is ready again for any worker of its
    queue, this one included. A task with ``on_lost="pause"`` is paused instead, because part of its work may be done.
    """


class _TaskLogger(logging.LoggerAdapter):  # type: ignore[type-arg]
    def process(self, msg: Any, kwargs: MutableMapping[str, Any]) -> tuple[Any, MutableMapping[str, Any]]:
        kwargs["extra"] = {**(self.extra or {}), **(kwargs.get("extra") or {})}
        return msg, kwargs


class _LogFile(io.TextIOBase):
    """Sends whole lines, because ``print`` writes a line in pieces."""

    def __init__(self, context: Context, stream: str) -> None:
        self._context = context
        self._stream = stream
        self._line = ""
        self._lock = threading.Lock()

    def writable(self) -> bool:
        return True

    def write(self, text: str, /) -> int:
        with self._lock:
            self._line += text
            lines, newline, self._line = self._line.rpartition("\n")
        if newline:
            self._context.append_log(lines + newline, self._stream)
        return len(text)

    def flush(self) -> None:
        with self._lock:
            rest, self._line = self._line, ""
        if rest:
            self._context.append_log(rest, self._stream)


class Context:
    """A handler's task."""

    def __init__(
        self,
        native: _native.Task,
        without_slot: Callable[[], AbstractContextManager[Any]] = nullcontext,
    ) -> None:
        self._native = native
        # Lets other tasks run while this one waits in its thread.
        self._without_slot = without_slot
        self._written = {"stdout": 0, "stderr": 0}
        self._files: dict[str, _LogFile] = {}
        self._write_lock = threading.Lock()

    def __repr__(self) -> str:
        return f"<Context {self.id} attempt {self.attempt}>"

    @property
    def id(self) -> str:
        return self._native.id

    @property
    def attempt(self) -> int:
        """The number of this attempt, from 1. Pass it along with side effects, so that other systems can tell this
        attempt from a later one.
        """
        return self._native.attempt

    @property
    def body(self) -> bytes:
        return self._native.body

    @property
    def queue(self) -> str:
        return self._native.queue

    @property
    def name(self) -> Optional[str]:
        return self._native.name

    @property
    def parent(self) -> Optional[str]:
        return self._native.parent

    @property
    def array(self) -> Optional[str]:
        """The array of which this task is an element."""
        return self._native.array

    @property
    def index(self) -> Optional[int]:
        """The index of this element in its array."""
        return self._native.index

    @property
    def after(self) -> list[Dependency]:
        """The tasks that this one waited for. A client fetches their results: ``client.result(dependency.task)``."""
        return [read(Dependency, told) for told in json.loads(self._native.after())]

    @property
    def traceparent(self) -> Optional[str]:
        """The trace the task belongs to: the parent of the handler's own spans."""
        return self._native.traceparent

    @property
    def tracestate(self) -> Optional[str]:
        """What tracing systems have added to the trace."""
        return self._native.tracestate

    @property
    def priority(self) -> int:
        return self._native.priority

    @property
    def submitter(self) -> Optional[str]:
        """The identity of the client that submitted the task."""
        return self._native.submitter

    @property
    def submitted_at(self) -> datetime:
        return when(self._native.submitted_at)

    @property
    def cpus(self) -> list[int]:
        """The numbers of the cpus that belong to this attempt, if the task needs cpus."""
        return self._native.cpus

    @property
    def gpus(self) -> list[int]:
        """The numbers of the gpus that belong to this attempt, if the task needs gpus."""
        return self._native.gpus

    @property
    def crashes(self) -> int:
        """How many workers were lost with it before."""
        return self._native.crashes

    @property
    def failures(self) -> int:
        """How often it was tried and failed before."""
        return self._native.failures

    @property
    def terms(self) -> Terms:
        """The options of the task at its submission."""
        return read(Terms, json.loads(self._native.terms()))

    @property
    def logger(self) -> logging.LoggerAdapter[logging.Logger]:
        """A logger whose records carry the task and the attempt."""
        return _TaskLogger(log, {"task": self.id, "attempt": self.attempt, "queue": self.queue})

    @property
    def checkpoint(self) -> Optional[bytes]:
        """The last checkpoint of an earlier attempt, or None. Resume the work from it."""
        return self._native.checkpoint

    def save_checkpoint(self, checkpoint: Body) -> None:
        """Saves a checkpoint, and returns when it is on the broker's disk. The next attempt resumes from it."""
        self._native.save_checkpoint(to_bytes(checkpoint))

    async def save_checkpoint_async(self, checkpoint: Body) -> None:
        """Like :meth:`save_checkpoint`, for async handlers."""
        said = to_bytes(checkpoint)
        await self._ask(lambda via: self._native.save_checkpoint(said, via))

    def wait_for(self, *tasks: str) -> list[TaskEnd]:
        """Waits until these tasks have ended, in any way, and returns how each of them did. Meanwhile the attempt is
        suspended: it takes no slot of the worker, so that the tasks can run there. A client fetches their results.
        Raises :class:`TaskInterrupted` as soon as the task should wind down.
        """
        with self._without_slot():
            return self._ends(self._native.wait_for(list(tasks)))

    async def wait_for_async(self, *tasks: str) -> list[TaskEnd]:
        """Like :meth:`wait_for`, for async handlers."""
        return self._ends(await self._ask(lambda via: self._native.wait_for(list(tasks), via)))

    def wait_for_children(self) -> list[TaskEnd]:
        """Waits until the children of this task have ended, like :meth:`wait_for`. Of more than 1,000 children it waits
        for the oldest 1,000 that have not ended: call it again until it returns fewer.
        """
        with self._without_slot():
            return self._ends(self._native.wait_for(None))

    async def wait_for_children_async(self) -> list[TaskEnd]:
        """Like :meth:`wait_for_children`, for async handlers."""
        return self._ends(await self._ask(lambda via: self._native.wait_for(None, via)))

    def _ends(self, told: Optional[list[tuple[str, str]]]) -> list[TaskEnd]:
        if told is None:
            self.check()
            raise TaskInterrupted(Interrupt("stop"))
        return [TaskEnd(*end) for end in told]

    def progress(self, percent: Optional[float] = None, note: str = "") -> None:
        """Reports progress. Never waits: reports that come faster than they can be sent are dropped."""
        self._native.progress(None if percent is None else max(0, min(100, int(percent))), note)

    def append_log(self, text: Body, stream: str = "stdout") -> None:
        """Sends output of the task to its readers: ``tenure logs -f``, :meth:`SyncClient.logs`. Never waits:
        what comes faster than it can be sent is dropped, and readers see the hole.
        """
        data = to_bytes(text)
        if stream not in self._written:
            raise BadSetting(f"stream is {stream!r}: use stdout or stderr")
        with self._write_lock:
            for start in range(0, len(data), LOG_PIECE_BYTES_MAX):
                piece = data[start : start + LOG_PIECE_BYTES_MAX]
                self._native.append_log(stream, self._written[stream], piece)
                self._written[stream] += len(piece)

    @property
    def stdout(self) -> TextIO:
        """The output of the task as a file: ``print("half way", file=context.stdout)``. Sends whole lines; the rest at
        the end, or when it is flushed.
        """
        return self._file("stdout")

    @property
    def stderr(self) -> TextIO:
        """Like :attr:`stdout`, for errors."""
        return self._file("stderr")

    def _file(self, stream: str) -> TextIO:
        return cast(TextIO, self._files.setdefault(stream, _LogFile(self, stream)))

    def _flush(self) -> None:
        for file in self._files.values():
            file.flush()

    @property
    def interrupt(self) -> Optional[Interrupt]:
        """Why the task should wind down, if it should."""
        told = self._native.interrupt()
        return None if told is None else Interrupt(*told)

    @property
    def cancelled(self) -> bool:
        """Whether the task was cancelled, or its attempt is over."""
        interrupt = self.interrupt
        return interrupt is not None and interrupt.kind in ("cancel", "stop")

    def check(self) -> None:
        """Raises :class:`TaskInterrupted` if the task should wind down. Call it regularly. If the worker
        leaves, the task is given back, and another worker resumes it from its checkpoint.
        """
        interrupt = self.interrupt
        if interrupt is not None:
            raise TaskInterrupted(interrupt)

    def sleep(self, span: Span) -> None:
        """Sleeps, and raises :class:`TaskInterrupted` as soon as the task should wind down."""
        until = time.monotonic() + span_millis(span) / 1000
        while (left := until - time.monotonic()) > 0:
            self._native.wait_interrupt(int(left * 1000) + 1)
            self.check()

    async def interrupted(self) -> Interrupt:
        """Waits until the task should wind down."""
        return Interrupt(*await self._ask(lambda via: self._native.wait_interrupt(None, via)))

    async def _ask(self, request: Callable[[_native.Via], Any]) -> Any:
        if isinstance(self._native, _native.Task):
            return await _loop.ask(request)
        # In a process of a pool, whose parent answers.
        return await asyncio.to_thread(request, None)


#: The task that runs in this thread or asyncio task.
_current: contextvars.ContextVar[Context] = contextvars.ContextVar("tenure_context")


def current_context() -> Context:
    """The task that this code runs for. Raises ``LookupError`` outside of one."""
    try:
        return _current.get()
    except LookupError:
        raise LookupError("no task runs here: current_context() is for code that a worker calls") from None


def current_traceparent() -> Optional[tuple[str, Optional[str]]]:
    """The trace of the task that this code runs for, if there is one."""
    context = _current.get(None)
    if context is None or context.traceparent is None:
        return None
    return context.traceparent, context.tracestate
