"""A process of a worker: runs one task after another, and can be killed with the one it runs.

Started by ``_pool_processes`` as ``python -m tenure._child FD module:app SETTINGS LOG_LEVEL``.
"""

from __future__ import annotations

import json
import os
import queue
import signal
import socket
import sys
import threading
from typing import Any, Optional

from . import errors
from ._frames import Frames
from ._load import load_app, log_to_stderr
from ._pool_threads import ThreadPool
from .app import App
from .errors import StaleAttempt


class RemoteTask:
    """A task as the native worker in the parent has it; what is said of it goes there."""

    def __init__(self, frames: Frames, told: dict[str, Any]) -> None:
        self._frames = frames
        self._interrupt: Optional[tuple[str, Optional[str]]] = None
        self._interrupted = threading.Event()
        if told["interrupt"] is not None:
            self.told_interrupt(*told["interrupt"])
        self._answers: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self.ended = False
        self.id: str = told["id"]
        self.attempt: int = told["attempt"]
        self.body: bytes = told["body"]
        self.queue: str = told["queue"]
        self.name: Optional[str] = told["name"]
        self.parent: Optional[str] = told["parent"]
        self.array: Optional[str] = told["array"]
        self.index: Optional[int] = told["index"]
        self.traceparent: Optional[str] = told["traceparent"]
        self.tracestate: Optional[str] = told["tracestate"]
        self.cpus: list[int] = told["cpus"]
        self.gpus: list[int] = told["gpus"]
        self.priority: int = told["priority"]
        self.submitter: Optional[str] = told["submitter"]
        self.submitted_at: int = told["submitted_at"]
        self.crashes: int = told["crashes"]
        self.failures: int = told["failures"]
        self.checkpoint: Optional[bytes] = told["checkpoint"]
        self._terms: Optional[str] = None

    def terms(self) -> str:
        # Few tasks look at them, so they are fetched when one does.
        if self._terms is None:
            self._frames.send("terms", self.id, self.attempt)
            self._terms = self._answers.get() or "{}"
        return self._terms

    def after(self) -> str:
        self._frames.send("after", self.id, self.attempt)
        return str(self._answers.get() or "[]")

    def append_log(self, stream: str, offset: int, piece: bytes) -> None:
        self._frames.send("log", self.id, self.attempt, stream, offset, piece)

    def progress(self, percent: Optional[int], note: str) -> None:
        self._frames.send("progress", self.id, self.attempt, percent, note)

    def save_checkpoint(self, checkpoint: bytes, via: Any = None) -> None:
        self._frames.send("checkpoint", self.id, self.attempt, checkpoint)
        refused = self._answers.get()
        if refused is not None:
            raise StaleAttempt(refused)

    def wait_for(self, tasks: Optional[list[str]], via: Any = None) -> Optional[list[tuple[str, str]]]:
        # Meanwhile the parent has another process for the tasks that run in the free slot.
        self._frames.send("wait", self.id, self.attempt, tasks)
        ends, interrupt, refused = self._answers.get()
        if refused is not None:
            kind, message = refused
            raise getattr(errors, kind, errors.TenureError)(message)
        if interrupt is not None:
            self.told_interrupt(*interrupt)
        return None if ends is None else [(task, state) for task, state in ends]

    def answered(self, answer: Any) -> None:
        self._answers.put(answer)

    def told_interrupt(self, kind: str, reason: Optional[str]) -> None:
        self._interrupt = (kind, reason)
        self._interrupted.set()

    def interrupt(self) -> Optional[tuple[str, Optional[str]]]:
        return self._interrupt

    def wait_interrupt(self, timeout_ms: Optional[int], via: Any = None) -> Optional[tuple[str, Optional[str]]]:
        self._interrupted.wait(None if timeout_ms is None else timeout_ms / 1000)
        return self._interrupt

    def complete(self, result: bytes) -> bool:
        return self._end("complete", result)

    def fail(self, exit_code: int, message: str, result: bytes, is_final: bool, crashed: bool) -> bool:
        return self._end("fail", exit_code, message, result, is_final, crashed)

    def confirm_cancelled(self, result: bytes) -> bool:
        return self._end("confirm_cancelled", result)

    def confirm_paused(self, result: bytes) -> bool:
        return self._end("confirm_paused", result)

    def give_back(self, reason: Optional[str]) -> bool:
        return self._end("give_back", reason)

    def _end(self, *outcome: Any) -> bool:
        if self.ended:
            return False
        self._frames.send("end", self.id, self.attempt, *outcome)
        self.ended = True
        return True


class Child:
    """The process: a thread hears what the parent says, the main thread runs tasks."""

    def __init__(self, frames: Frames, app: App) -> None:
        self._frames = frames
        self._runner = ThreadPool(app.handle, 1)
        self._waiting: queue.SimpleQueue[RemoteTask] = queue.SimpleQueue()
        self._held: dict[tuple[str, int], RemoteTask] = {}

    def run(self) -> None:
        """Runs tasks until the parent is gone."""
        threading.Thread(target=self._hear, name="tenure-parent", daemon=True).start()
        self._frames.send("ready")
        while True:
            task = self._waiting.get()
            # The parent may have taken it back.
            if (task.id, task.attempt) in self._held:
                self._runner.handle(task)  # type: ignore[arg-type]
                self._held.pop((task.id, task.attempt), None)

    def _hear(self) -> None:
        try:
            while True:
                kind, *told = self._frames.receive()
                if kind == "tasks":
                    for described in told[0]:
                        task = RemoteTask(self._frames, described)
                        self._held[(task.id, task.attempt)] = task
                        self._waiting.put(task)
                    continue
                held = self._held.get((told[0], told[1]))
                if held is None:
                    continue
                if kind == "forget":
                    self._held.pop((told[0], told[1]), None)
                elif kind in ("checkpoint", "terms", "after"):
                    held.answered(told[2])
                elif kind == "waited":
                    held.answered(told[2:5])
                elif kind == "interrupt":
                    held.told_interrupt(told[2], told[3])
        except EOFError:
            # The parent is gone, so no outcome can be reported.
            os._exit(1)


def main() -> None:
    # A terminal sends Ctrl-C to the whole group; the parent decides what it means.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    sys.path.insert(0, os.getcwd())
    frames = Frames(socket.socket(fileno=int(sys.argv[1])))
    if sys.argv[4]:
        log_to_stderr(sys.argv[4])
    try:
        app = load_app(sys.argv[2])
        app.configure(**json.loads(sys.argv[3]))
        child = Child(frames, app)
    except Exception as error:
        frames.send("broken", f"{type(error).__name__}: {error}")
        raise
    child.run()


if __name__ == "__main__":
    main()
