"""The examples in `examples/python/sdk` run and say what they promise."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import LONG, end_worker, start_worker
from tenure.testing import Broker

EXAMPLES = Path(__file__).parents[3] / "examples" / "python" / "sdk"


def run(name: str, broker: Broker) -> str:
    environment = {**os.environ, "TENURE_BROKER": broker.address}
    command = [sys.executable, str(EXAMPLES / f"{name}.py")]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=LONG, env=environment)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("client", ["HELLO FROM PYTHON", "why not:", "completed"]),
        ("topics", ["connection: connected", "sensor.kitchen 3: 21.7"]),
        ("talk", ["1+2+3 = 6", "write numbers", "no listener", "weather station: it rains"]),
    ],
)
def test_an_example_runs(name: str, said: list[str], tenure_broker: Broker) -> None:
    told = run(name, tenure_broker)
    assert all(one in told for one in said), told


@pytest.mark.parametrize(
    ("name", "said"),
    [("tasks", ["Metropolis, 2 h 33 min", "332833500"]), ("checkpoints", ["submitted", "200 frames in attempt 1"])],
)
def test_an_example_runs_with_its_worker(name: str, said: list[str], tenure_broker: Broker) -> None:
    worker = start_worker(tenure_broker, "--slots", "4", app=f"{name}:app", folder=EXAMPLES)
    told = run(name, tenure_broker)
    assert all(one in told for one in said), told
    assert end_worker(worker) == 0
