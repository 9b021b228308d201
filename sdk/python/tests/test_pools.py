"""Workers of an app as processes of their own, and what becomes of tasks that misbehave."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
import tasks_app
import tenure
from conftest import LONG, end_worker, start_worker, until
from tasks_app import app
from tenure.testing import Broker


def test_a_segfault_is_a_crash_of_that_task_alone(app_broker: Broker) -> None:
    worker = start_worker(app_broker, "--pool", "processes", "--slots", "1")
    with pytest.raises(tenure.TaskFailed, match="SIGSEGV"):
        tasks_app.segfault.submit().result(timeout=LONG)
    assert tasks_app.add.submit(1, 1).result(timeout=LONG) == 2
    assert end_worker(worker) == 0


def test_a_cancelled_task_that_does_not_listen_is_killed(app_broker: Broker) -> None:
    worker = start_worker(app_broker, "--pool", "processes", "--slots", "1", "--kill-after", "0.2")
    task = tasks_app.spin.submit(600.0)
    until("it runs", lambda: (holding := task.status().holding) is not None and holding.progress is not None)
    task.cancel()
    with pytest.raises(tenure.TaskCancelled):
        task.result(timeout=LONG)
    assert tasks_app.add.submit(1, 1).result(timeout=LONG) == 2
    assert end_worker(worker) == 0


def test_a_task_over_its_limit_is_killed(app_broker: Broker) -> None:
    worker = start_worker(app_broker, "--pool", "processes", "--slots", "1", "--kill-after", "0.2")
    task = tasks_app.spin.with_options(run_limit=0.5, crash_budget=1, on_lost="fail").submit(600.0)
    assert task.wait(timeout=LONG).state == "failed"
    assert tasks_app.add.submit(1, 1).result(timeout=LONG) == 2
    assert end_worker(worker) == 0


def test_more_slots_than_processes_lets_tasks_wait_in_them(app_broker: Broker) -> None:
    worker = start_worker(app_broker, "--pool", "processes", "--slots", "32", "--processes", "2")
    assert tasks_app.add.map(range(1000)).results(timeout=LONG) == list(range(1000))
    assert len(set(tasks_app.pid.starmap([()] * 50).results(timeout=LONG))) <= 2
    assert end_worker(worker) == 0


def test_a_task_that_weighs_no_slot_runs_besides_the_others(app_broker: Broker) -> None:
    """It has a process of its own: it does not wait behind the task that takes the slot."""
    worker = start_worker(app_broker, "--pool", "processes", "--slots", "1", "--kill-after", "0.2")
    long = tasks_app.spin.submit(600.0)
    until("it runs", lambda: (holding := long.status().holding) is not None and holding.progress is not None)
    for number in range(3):
        assert tasks_app.add.with_options(slots=0).submit(number, 1).result(timeout=LONG) == number + 1
    # One more than that waits for a process.
    light = [tasks_app.spin.with_options(slots=0).submit(600.0) for _ in range(2)]
    until("one of them runs", lambda: sorted(one.status().state for one in light) == ["ready", "running"])
    for task in (long, *light):
        task.cancel()
    for task in (long, *light):
        assert task.wait(timeout=LONG).state == "cancelled"
    assert end_worker(worker) == 0


def test_a_worker_drains_on_sigterm(app_broker: Broker) -> None:
    worker = start_worker(app_broker, "--pool", "threads", "--slots", "1")
    task = tasks_app.spin.submit(1.0)
    until("it runs", lambda: task.status().state == "running")
    assert end_worker(worker) == 0
    assert task.result(timeout=LONG) == "done"


def test_ten_thousand_are_mapped_in_one_call(app_broker: Broker) -> None:
    batch = tasks_app.add.map(range(10_000))
    assert len(batch) == 10_000
    with app.worker(slots=16):
        assert batch.results(timeout=LONG) == list(range(10_000))


def test_a_batch_tells_of_each_task(app_broker: Broker) -> None:
    batch = tasks_app.divide.starmap([(1.0, 2.0), (1.0, 0.0), (3.0, 4.0)])
    with app.worker():
        first, second, third = batch.results(timeout=LONG, return_exceptions=True)
        assert (first, third) == (0.5, 0.75) and isinstance(second, tenure.TaskFailed)
        with pytest.raises(tenure.TaskFailed, match="division by zero"):
            batch.results(timeout=LONG)
        assert [handle.status().state for handle in batch] == ["completed", "failed", "completed"]
        assert batch[0].result(timeout=LONG) == 0.5
    waiting = tasks_app.add.map(range(3))
    with pytest.raises(tenure.ResultTimeout, match="3 of 3 tasks"):
        waiting.results(timeout=0.05)
    waiting.cancel("not wanted")
    assert {handle.status().state for handle in waiting} == {"cancelled"}
    assert tasks_app.add.map([]).results() == []


def test_an_app_can_be_pointed_elsewhere() -> None:
    other = tenure.App("127.0.0.1:1")
    other.configure(connect_timeout=0.1)
    with pytest.raises(tenure.BadSetting, match="no setting 'adress'"):
        other.configure(adress="x")
    with pytest.raises(tenure.Unreachable):
        other.task(name="x")(lambda: None).submit()


def test_functions_are_submitted_from_an_event_loop(app_broker: Broker) -> None:
    async def main() -> int:
        task = await tasks_app.add.submit_async(20, 22)
        batch = await tasks_app.add.map_async(range(100))
        assert await batch.results(timeout=LONG) == list(range(100))
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


def test_an_app_that_is_not_there_is_reported(capfd: pytest.CaptureFixture[str]) -> None:
    from tenure.__main__ import main

    assert main(["work", "no_such_module:app"]) == 1
    assert "no_such_module" in capfd.readouterr().err
    assert main(["work", "tasks_app:nothing"]) == 1
    assert "has no tenure.App called 'nothing'" in capfd.readouterr().err


def test_processes_end_with_a_worker_that_is_killed(app_broker: Broker) -> None:
    worker = start_worker(app_broker, "--pool", "processes", "--slots", "2")
    pids = set(tasks_app.pid.starmap([()] * 20).results(timeout=LONG))
    worker.kill()
    worker.wait(LONG)
    until("they are gone", lambda: not any(_lives(pid) for pid in pids))


def _lives(pid: int) -> bool:
    try:
        # A process that its new parent has not looked after yet is dead all the same.
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
