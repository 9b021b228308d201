"""Figures, printed and held to a floor. They take long and want a quiet machine and a release build:
`TENURE_BINARY=target/release/tenure cargo xtask python --long -- -k figures -s`.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import textwrap
import threading
import time
from pathlib import Path

import pytest
import tasks_app
from conftest import end_worker, start_worker, until
from tenure.testing import Broker

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]

#: A build without optimization says nothing about speed, so the floors hold for others only.
IS_DEBUG = "/debug/" in os.environ.get("TENURE_BINARY", "/debug/")


def tell(what: str, count: int, seconds: float, floor: int) -> float:
    figure = count / seconds
    print(f"\n{what}: {figure:,.0f}/s (floor {floor:,}/s{', not held: debug build' if IS_DEBUG else ''})")
    assert IS_DEBUG or figure >= floor
    return figure


def timed(count: int, work: object) -> float:
    assert callable(work)
    start = time.perf_counter()
    for _ in range(count):
        work()
    return time.perf_counter() - start


def test_figures_of_single_requests(app_broker: Broker) -> None:
    with app_broker.client() as client, client.listen(["figures"]) as calls:

        def answer() -> None:
            for call in calls:
                call.answer(call.body)

        threading.Thread(target=answer, daemon=True).start()
        tell("durable submissions", 2000, timed(2000, lambda: client.submit("figures", b"x")), 1500)
        tell("calls", 2000, timed(2000, lambda: client.call("figures", b"x", 10)), 900)
        tell("listen and close", 2000, timed(2000, lambda: client.listen(["other"]).close()), 1500)
        tell("broadcasts", 2000, timed(2000, lambda: client.broadcast(b"x", subject="figures")), 2000)


def test_figures_of_a_map_next_to_celery(app_broker: Broker, tmp_path: Path) -> None:
    count = 10_000 if IS_DEBUG else 100_000
    start = time.perf_counter()
    batch = tasks_app.add.map(range(count))
    tell("mapped submissions", count, time.perf_counter() - start, 20_000)
    start = time.perf_counter()
    worker = start_worker(app_broker, "--pool", "processes", "--slots", "512", "--processes", "1")
    assert batch.results(timeout=800) == list(range(count))
    ours = tell("tasks through one process", count, time.perf_counter() - start, 5_000)
    assert end_worker(worker) == 0
    theirs = _celery(tmp_path, 5_000)
    if theirs is not None:
        print(f"Celery with Redis: {theirs:,.0f}/s, so {ours / theirs:.1f} times as many")
        assert IS_DEBUG or ours >= 10 * theirs


def _celery(folder: Path, count: int) -> float | None:
    """Tasks per second through one process of Celery, from the first submission to the last result."""
    python, redis = os.environ.get("TENURE_THIRD_PARTY_PYTHON"), shutil.which("redis-server")
    if python is None or redis is None:
        print("\nCelery is left out: TENURE_THIRD_PARTY_PYTHON or redis-server is missing")
        return None
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    (folder / "celery_tasks.py").write_text(
        textwrap.dedent(f"""
        import sys, time
        from celery import Celery, group
        url = "redis://127.0.0.1:{port}/0"
        app = Celery("celery_tasks", broker=url, backend=url)
        @app.task
        def add(x, y=0):
            return x + y
        if __name__ == "__main__":
            count = int(sys.argv[1])
            add.delay(1).get(timeout=60)
            start = time.perf_counter()
            group(add.s(number) for number in range(count))().get(timeout=600)
            print(count / (time.perf_counter() - start))
        """)
    )
    server = subprocess.Popen(
        [redis, "--port", str(port), "--save", "", "--appendonly", "no"], stdout=subprocess.DEVNULL
    )
    command = [python, "-m", "celery", "-A", "celery_tasks", "worker", "-c", "1", "--loglevel", "ERROR"]
    worker = subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        until("Redis answers", lambda: socket.socket().connect_ex(("127.0.0.1", port)) == 0)
        told = subprocess.run(
            [python, "celery_tasks.py", str(count)], cwd=folder, capture_output=True, text=True, timeout=800
        )
        assert told.returncode == 0, told.stderr
        return float(told.stdout)
    finally:
        for process in (worker, server):
            process.terminate()
            process.wait(60)
