"""Tasks of plain functions, and the pools that run them."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import tasks_app
import tenure
from conftest import LONG, until
from tasks_app import Point, app
from tenure.testing import Broker

HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as broker:
        app._settings["address"] = broker.address
        app.close()
        yield broker
        app.close()


def start_worker(broker: Broker, *arguments: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "tenure", "work", "tasks_app:app", "--broker", broker.address, *arguments]
    worker = subprocess.Popen(command, cwd=HERE)
    with broker.client() as client:
        until("the worker is there", lambda: any(one.presence == "live" for one in client.workers()))
    return worker


def end_worker(worker: subprocess.Popen[bytes]) -> int:
    worker.send_signal(signal.SIGTERM)
    return worker.wait(LONG)


@pytest.fixture(scope="module", params=["threads", "processes", "asyncio"])
def pool(request: pytest.FixtureRequest, broker: Broker) -> Iterator[str]:
    worker = start_worker(broker, "--pool", request.param, "--slots", "3", "--kill-after", "0.5")
    yield request.param
    assert end_worker(worker) == 0


def test_functions_run_elsewhere_and_their_results_come_back(pool: str) -> None:
    assert tasks_app.add.submit(1, y=2).result(timeout=LONG) == 3
    assert tasks_app.add_later.submit(3, 4).result(timeout=LONG) == 7
    assert tasks_app.mirror.submit(Point(1.0, 2.0)).result(timeout=LONG) == Point(2.0, 1.0)
    assert tasks_app.pid.submit().result(timeout=LONG) != os.getpid()


def test_an_exception_comes_back_with_its_traceback(pool: str) -> None:
    with pytest.raises(tenure.TaskFailed, match="division by zero") as failed:
        tasks_app.divide.submit(1.0, 0.0).result(timeout=LONG)
    assert failed.value.type_name == "ZeroDivisionError"
    assert failed.value.traceback is not None and "in divide" in failed.value.traceback


def test_a_result_that_cannot_be_encoded_says_so(pool: str) -> None:
    with pytest.raises(tenure.ResultNotEncodable, match="cannot encode a value of type object"):
        tasks_app.unencodable.submit().result(timeout=LONG)


def test_a_retry_goes_on_from_the_checkpoint(pool: str) -> None:
    task = tasks_app.count_up.submit()
    assert task.result(timeout=LONG) == 2
    assert task.status().failures == 2


def test_a_polite_task_winds_down_when_it_is_cancelled(pool: str) -> None:
    if pool == "asyncio":
        pytest.skip("a plain function on an event loop runs in a thread that asyncio cannot interrupt")
    task = tasks_app.polite.submit()
    until("it runs", lambda: (holding := task.status().holding) is not None and holding.progress is not None)
    task.cancel("enough")
    with pytest.raises(tenure.TaskCancelled):
        task.result(timeout=LONG)


def test_many_are_mapped(pool: str) -> None:
    assert tasks_app.add.map(range(500)).results(timeout=LONG) == list(range(500))
    assert tasks_app.add.starmap([(1, 2), (3, 4)]).results(timeout=LONG) == [3, 7]


def test_a_segfault_is_a_crash_of_that_task_alone(broker: Broker) -> None:
    worker = start_worker(broker, "--pool", "processes", "--slots", "1")
    with pytest.raises(tenure.TaskFailed, match="SIGSEGV"):
        tasks_app.segfault.submit().result(timeout=LONG)
    assert tasks_app.add.submit(1, 1).result(timeout=LONG) == 2
    assert end_worker(worker) == 0


def test_a_cancelled_task_that_does_not_listen_is_killed(broker: Broker) -> None:
    worker = start_worker(broker, "--pool", "processes", "--slots", "1", "--kill-after", "0.2")
    task = tasks_app.spin.submit(600.0)
    until("it runs", lambda: (holding := task.status().holding) is not None and holding.progress is not None)
    task.cancel()
    with pytest.raises(tenure.TaskCancelled):
        task.result(timeout=LONG)
    assert tasks_app.add.submit(1, 1).result(timeout=LONG) == 2
    assert end_worker(worker) == 0


def test_a_task_over_its_limit_is_killed(broker: Broker) -> None:
    worker = start_worker(broker, "--pool", "processes", "--slots", "1", "--kill-after", "0.2")
    task = tasks_app.spin.with_options(run_limit=0.5, crash_budget=1, on_lost="fail").submit(600.0)
    assert task.wait(timeout=LONG).state == "failed"
    assert tasks_app.add.submit(1, 1).result(timeout=LONG) == 2
    assert end_worker(worker) == 0


def test_more_slots_than_processes_lets_tasks_wait_in_them(broker: Broker) -> None:
    worker = start_worker(broker, "--pool", "processes", "--slots", "32", "--processes", "2")
    assert tasks_app.add.map(range(1000)).results(timeout=LONG) == list(range(1000))
    assert len(set(tasks_app.pid.starmap([()] * 50).results(timeout=LONG))) <= 2
    assert end_worker(worker) == 0


def test_a_worker_drains_on_sigterm(broker: Broker) -> None:
    worker = start_worker(broker, "--pool", "threads", "--slots", "1")
    task = tasks_app.spin.submit(1.0)
    until("it runs", lambda: task.status().state == "running")
    assert end_worker(worker) == 0
    assert task.result(timeout=LONG) == "done"


def test_ten_thousand_are_mapped_in_one_call(broker: Broker) -> None:
    batch = tasks_app.add.map(range(10_000))
    assert len(batch) == 10_000
    with app.worker(slots=16):
        assert batch.results(timeout=LONG) == list(range(10_000))


def test_functions_are_submitted_from_an_event_loop(broker: Broker) -> None:
    async def main() -> int:
        task = await tasks_app.add.submit_async(20, 22)
        return await task.result(timeout=LONG)

    with app.worker():
        assert asyncio.run(main()) == 42


def test_a_call_that_cannot_be_right_is_refused_where_it_is_written() -> None:
    with pytest.raises(TypeError, match="add"):
        tasks_app.add.submit(1, 2, 3)  # type: ignore[call-arg]
    with pytest.raises(tenure.CannotEncode, match="object"):
        tasks_app.add.body((object(),), {})
    with pytest.raises(tenure.BadSetting, match="retires"):
        app.task(retires=3)(lambda: None)
    with pytest.raises(tenure.BadSetting, match="a list of names"):
        app.task(name="x", tags="gpu")(lambda: None)
    with pytest.raises(tenure.BadSetting, match="two tasks"):
        app.task(name=tasks_app.add.name)(lambda: None)


def test_an_app_that_is_not_there_is_told(capfd: pytest.CaptureFixture[str]) -> None:
    from tenure.__main__ import main

    assert main(["work", "no_such_module:app"]) == 1
    assert "no_such_module" in capfd.readouterr().err
    assert main(["work", "tasks_app:nothing"]) == 1
    assert "has no tenure.App called 'nothing'" in capfd.readouterr().err
