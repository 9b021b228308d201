"""Two threads of a communicator: one takes the answers of the native client, the other calls subscribers."""

from __future__ import annotations

import contextlib
import heapq
import itertools
import logging
import os
import queue
import select
import threading
import time
from typing import Any, Callable, Optional

from .. import _native
from ..errors import TenureError

log = logging.getLogger("tenure.kiwi")

#: Gets the answer to a request, or the error instead.
Told = Callable[[Any, Optional[BaseException]], None]


class Dispatcher:
    """Runs requests in the background.

    What a request is answered goes to its ``told`` on the network thread, which never waits. Code of the program
    (subscribers, callbacks of futures) runs on the callback thread, so it may use the communicator and wait for it.
    Nothing that is raised on either thread ends it, not even ``SystemExit``.
    """

    def __init__(self, name: str) -> None:
        self._port = _native.Port()
        self._tokens = itertools.count(1)
        self._waiting: dict[int, Told] = {}
        self._timers: list[tuple[float, int, Callable[[], None]]] = []
        self._lock = threading.Lock()
        self._wake_read, self._wake_write = os.pipe()
        os.set_blocking(self._wake_write, False)
        self._pipe_closed = False
        # Bounded by its sources: a listener is asked for more when its last batch was handled.
        self._calls: queue.SimpleQueue[Optional[Callable[[], None]]] = queue.SimpleQueue()
        self._closed = False
        self._threads = [
            threading.Thread(target=target, name=f"{name}-{role}", daemon=True)
            for role, target in (("network", self._run), ("callbacks", self._call_back))
        ]
        for thread in self._threads:
            thread.start()

    def ask(self, request: Callable[[Any], Any], told: Told) -> None:
        """Makes a request; its answer goes to ``told`` on the network thread."""
        token = next(self._tokens)
        self._waiting[token] = told
        try:
            request((self._port, token))
        except Exception as error:
            self._waiting.pop(token, None)
            told(None, error)

    def call(self, function: Callable[..., Any], *arguments: Any) -> None:
        """Calls a function on the callback thread."""
        self._calls.put(lambda: function(*arguments))

    def later(self, seconds: float, function: Callable[[], None]) -> None:
        """Calls a function on the callback thread when this time is over."""
        with self._lock:
            heapq.heappush(self._timers, (time.monotonic() + seconds, next(self._tokens), function))
        self._wake()

    def is_callback_thread(self) -> bool:
        """Whether this code runs on the callback thread."""
        return threading.current_thread() is self._threads[1]

    def close(self) -> None:
        """Ends both threads when the callbacks that wait are done."""
        self._closed = True
        self._calls.put(None)
        self._wake()
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join(5.0)

    def _wake(self) -> None:
        with self._lock:
            # The number of a pipe that is closed may belong to another file of the program by now.
            if self._pipe_closed:
                return
            # A full pipe wakes the reader already.
            with contextlib.suppress(BlockingIOError):
                os.write(self._wake_write, b"\0")

    def _run(self) -> None:
        poll = select.poll()
        poll.register(self._port.fileno(), select.POLLIN)
        poll.register(self._wake_read, select.POLLIN)
        while not self._closed:
            ready = dict(poll.poll(self._next_timer()))
            if self._wake_read in ready:
                os.read(self._wake_read, 4096)
            if self._port.fileno() in ready:
                self._drain()
            self._ring()
        with self._lock:
            self._pipe_closed = True
            os.close(self._wake_read)
            os.close(self._wake_write)

    def _next_timer(self) -> Optional[float]:
        with self._lock:
            if not self._timers:
                return None
            return max(0.0, (self._timers[0][0] - time.monotonic()) * 1000)

    def _ring(self) -> None:
        now = time.monotonic()
        with self._lock:
            while self._timers and self._timers[0][0] <= now:
                self._calls.put(heapq.heappop(self._timers)[2])

    def _drain(self) -> None:
        try:
            answers = self._port.drain()
        except TenureError:
            return
        for token, value, error in answers:
            told = self._waiting.pop(token, None)
            if told is None:
                continue
            try:
                told(value, error)
            except BaseException:
                log.exception("a communicator could not handle an answer")

    def _call_back(self) -> None:
        while True:
            function = self._calls.get()
            if function is None:
                return
            try:
                function()
            except BaseException:
                log.exception("a callback of a communicator failed")
            del function
