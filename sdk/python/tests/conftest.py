"""What the tests share."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Callable

import pytest
from tenure import SyncClient
from tenure.testing import Broker

HERE = Path(__file__).parent
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
