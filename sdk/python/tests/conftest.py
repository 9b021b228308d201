"""What the tests share."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Callable

import pytest
from tenure import SyncClient
from tenure.testing import Broker

HERE = Path(__file__).parent
# AiiDA looks at this when it is imported, which is before any fixture. The user's own installation is never touched.
AIIDA_FOLDER = Path(tempfile.mkdtemp(prefix="tenure-aiida-test-"))
os.environ["AIIDA_PATH"] = str(AIIDA_FOLDER)
#: Nothing on this machine takes longer unless something is wrong.
LONG = 60.0


@pytest.fixture(scope="session")
def shared_broker() -> Iterator[Broker]:
    """A broker for tests that do not stop it; each uses queues and names of its own."""
    with Broker() as broker:
        yield broker


@pytest.fixture
def client(shared_broker: Broker) -> Iterator[SyncClient]:
    with shared_broker.client() as client:
        yield client


@pytest.fixture(scope="module")
def app_broker() -> Iterator[Broker]:
    """A broker for the tasks of `tasks_app`."""
    from tasks_app import app

    with Broker() as broker:
        app.configure(address=broker.address)
        yield broker
        app.close()


def until(what: str, so: Callable[[], bool]) -> None:
    """Waits until something is so."""
    deadline = time.monotonic() + LONG
    while not so():
        assert time.monotonic() < deadline, f"not in time: {what}"
        time.sleep(0.01)


def start_worker(
    broker: Broker, *arguments: str, app: str = "tasks_app:app", folder: Path = HERE
) -> subprocess.Popen[bytes]:
    """A worker in a process of its own, which the broker knows."""
    command = [sys.executable, "-m", "tenure", "work", app, "--broker", broker.address, *arguments]
    worker = subprocess.Popen(command, cwd=folder)
    with broker.client() as client:
        until("the worker is there", lambda: any(one.presence == "live" for one in client.workers()))
    return worker


def end_worker(worker: subprocess.Popen[bytes]) -> int:
    worker.send_signal(signal.SIGTERM)
    return worker.wait(LONG)


@pytest.fixture(scope="session")
def aiida() -> Iterator[Any]:
    """An AiiDA installation of its own. Its daemon is not running between tests."""
    sys.path.insert(0, str(HERE / "aiida"))
    from installation import Installation  # type: ignore[import-not-found]

    made = Installation(AIIDA_FOLDER)
    yield made
    made.close()


@pytest.fixture
def daemon(aiida: Any) -> Iterator[Any]:
    """The AiiDA installation with one daemon worker."""
    aiida.start_daemon()
    yield aiida
    aiida.stop_daemon()


def pytest_unconfigure() -> None:
    shutil.rmtree(AIIDA_FOLDER, ignore_errors=True)
