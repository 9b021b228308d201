"""Tasks that the broker did not accept in time."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Any, Callable, Optional

import kiwipy

from .._fields import FieldLogger
from .._text import text_of
from ._terms import pk_of

log = FieldLogger("tenure.aiida")

#: How many tasks a program keeps at most.
UNSENT_MAX = 10_000
#: The pause between two attempts, each of which waits for the broker itself.
AGAIN_SECONDS = 1.0


class Unsent:
    """Keeps the tasks of processes that were submitted while the broker was away, and sends them when it is back.

    In a worker of the daemon the exception would end the process that submits another: it is excepted, and its child
    has no task. A task is sent under the name of its process, which belongs to one active task, so sending it twice is
    harmless.
    """

    def __init__(self, send: Callable[[Any], Any]) -> None:
        """``send`` sends one task, and raises ``kiwipy.TimeoutError`` if the broker does not accept it in time."""
        self._send = send
        self._lock = threading.Lock()
        self._kept: OrderedDict[int, tuple[Any, dict[str, Any]]] = OrderedDict()
        self._closed = threading.Event()
        self._thread: Optional[threading.Thread] = None

    def __bool__(self) -> bool:
        return bool(self._kept)

    def keep(self, task: Any, terms: dict[str, Any]) -> bool:
        """Keeps a task with the terms of its submission. Returns false if there are too many."""
        pk = pk_of(task)
        assert pk is not None
        with self._lock:
            if self._closed.is_set() or len(self._kept) >= UNSENT_MAX:
                return False
            self._kept[pk] = (task, terms)
            if self._thread is None:
                self._thread = threading.Thread(target=self._send_all, name="tenure-aiida-unsent", daemon=True)
                self._thread.start()
        log.warning("the broker is away: the task of a process is kept and sent later", extra={"pk": pk})
        return True

    def terms_of(self, task: Any) -> Optional[dict[str, Any]]:
        """The terms of a task that is kept: the thread that sends it does not look into the database."""
        with self._lock:
            _, terms = self._kept.get(pk_of(task) or 0, (None, None))
        return None if terms is None else dict(terms)

    def close(self) -> None:
        """Sends nothing more. The next worker finds processes without a task."""
        self._closed.set()
        if self._kept:
            log.error("tasks of processes were not sent", extra={"pks": sorted(self._kept)})

    def _send_all(self) -> None:
        while not self._closed.is_set():
            with self._lock:
                if not self._kept:
                    self._thread = None
                    return
                pk, (task, _) = next(iter(self._kept.items()))
            try:
                self._send(task)
                log.warning("the task of a process is sent now", extra={"pk": pk})
            except kiwipy.TimeoutError:
                self._closed.wait(AGAIN_SECONDS)
                continue
            except kiwipy.CommunicatorClosed:
                return
            except Exception as error:
                log.error("the task of a process cannot be sent", extra={"pk": pk, "error": text_of(error)})
            with self._lock:
                self._kept.pop(pk, None)
