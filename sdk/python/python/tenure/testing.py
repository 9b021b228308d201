"""For tests: a private broker on a free port, and a worker inside the test's own process.

With pytest the fixture ``tenure_broker`` is there as soon as this package is installed::

    def test_resize(tenure_broker):
        with tenure_broker.client() as client, tenure_broker.worker(["images"], handler):
            assert client.submit("images", b"7").result(timeout=10) == b"done"
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import tempfile
import threading
from collections.abc import Iterable, Iterator
from typing import Any, Optional

from . import _binary
from .client import Client
from .errors import TenureError
from .sync_client import SyncClient
from .worker import Handler, Worker

try:
    import pytest
except ImportError:  # Only the fixture needs it.
    pytest = None  # type: ignore[assignment]

#: How long a broker may take to open its doors on a busy machine.
START_SECONDS = 60.0
_CLOSED = {"xmessage": "off", "resp": "off", "mdp": "off", "pingpong": "off", "grpc": "off", "http": "off"}


class Broker:
    """A private broker, whose data are removed when it is closed.

    >>> with Broker() as private:
    ...     with private.client() as client:
    ...         client.counts().live_workers
    0
    """

    def __init__(self, **options: str) -> None:
        """Starts a broker. Options are those of ``tenure serve``: ``Broker(resp="127.0.0.1:0")``."""
        self.directory = tempfile.mkdtemp(prefix="tenure-test-")
        #: ``host:port`` of the native door.
        self.address = "127.0.0.1:0"
        #: The addresses of all doors.
        self.doors: dict[str, Any] = {}
        self._options = {**_CLOSED, "log": "warn", **options}
        self._process: Optional[subprocess.Popen[str]] = None
        try:
            self.start()
        except BaseException:
            self.close()
            raise

    def start(self) -> None:
        """Starts the broker again, on the same data and the same port."""
        options = {"native": self.address, "data-dir": os.path.join(self.directory, "data"), **self._options}
        command = [_binary.find(), "serve", "--print-addresses", "json"]
        for name, value in options.items():
            command += [f"--{name.replace('_', '-')}", value]
        environment = {key: value for key, value in os.environ.items() if not key.startswith("TENURE_")}
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
        self.doors = json.loads(_first_line(self._process))["doors"]
        self.address = self.doors["native"]

    @property
    def pid(self) -> int:
        """The process of the broker."""
        if self._process is None:
            raise TenureError("the broker is not running: start it")
        return self._process.pid

    def kill(self) -> None:
        """Ends the broker at once, as a power failure would (``kill -9``)."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """Ends the broker cleanly."""
        self._end(signal.SIGTERM)

    def restart(self) -> None:
        """Kills the broker and starts it again."""
        self.kill()
        self.start()

    def close(self) -> None:
        """Ends the broker and removes its data."""
        self.kill()
        shutil.rmtree(self.directory, ignore_errors=True)

    def __enter__(self) -> Broker:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def client(self, **settings: Any) -> SyncClient:
        """A client of this broker."""
        return SyncClient(self.address, **settings)

    def async_client(self, **settings: Any) -> Client:
        """A client of this broker, for asyncio."""
        return Client(self.address, **settings)

    @contextlib.contextmanager
    def worker(self, queues: Iterable[str], handler: Handler, **settings: Any) -> Iterator[Worker]:
        """A worker of this broker inside this process, which stops at the end of the block."""
        worker = Worker(handler, queues=queues, address=self.address, **settings)
        with worker:
            yield worker

    def _end(self, how: signal.Signals) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.send_signal(how)
        try:
            process.wait(START_SECONDS)
        finally:
            if process.stdout is not None:
                process.stdout.close()


def _first_line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    overdue = threading.Timer(START_SECONDS, process.kill)
    overdue.start()
    try:
        line = process.stdout.readline()
    finally:
        overdue.cancel()
    if not line:
        raise TenureError(f"the broker ended with exit code {process.wait()} before it opened its doors")
    return line


if pytest is not None:

    @pytest.fixture
    def tenure_broker() -> Iterator[Broker]:
        """A private broker on a free port."""
        with Broker() as broker:
            yield broker
