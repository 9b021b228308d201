"""Tasks of plain functions, and the pools that run them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest
import tasks_app
import tenure
from conftest import LONG, end_worker, start_worker, until
from tasks_app import Point
from tenure.testing import Broker


@pytest.fixture(scope="module", params=["threads", "processes", "asyncio"])
def pool(request: pytest.FixtureRequest, app_broker: Broker) -> Iterator[str]:
    worker = start_worker(app_broker, "--pool", request.param, "--slots", "3", "--kill-after", "0.5")
    yield request.param
    assert end_worker(worker) == 0


def test_functions_run_elsewhere_and_their_results_come_back(pool: str) -> None:
    assert tasks_app.add.submit(1, y=2).result(timeout=LONG) == 3
    assert tasks_app.add_later.submit(3, 4).result(timeout=LONG) == 7
    assert tasks_app.mirror.submit(Point(1.0, 2.0)).result(timeout=LONG) == Point(2.0, 1.0)
    assert tasks_app.pid.submit().result(timeout=LONG) != os.getpid()


def test_a_task_knows_what_was_said_about_it(pool: str) -> None:
    assert tasks_app.terms.submit().result(timeout=LONG) == ["tests", 4, ["licence"]]


def test_an_exception_comes_back_with_its_traceback(pool: str) -> None:
    with pytest.raises(tenure.TaskFailed, match="division by zero") as failed:
        tasks_app.divide.submit(1.0, 0.0).result(timeout=LONG)
    assert failed.value.type_name == "ZeroDivisionError"
    assert failed.value.traceback is not None and "in divide" in failed.value.traceback


@pytest.mark.parametrize(
    ("task", "said"),
    [
        (tasks_app.unreadable_name, r"OSError: cannot read caf\\udce9\.txt"),
        (tasks_app.speechless, "Speechless: its text cannot be read"),
        (tasks_app.hostile, "the end of the handler could not be reported: RuntimeError"),
    ],
)
def test_an_exception_whose_text_cannot_be_read_fails_its_task_alone(pool: str, task: Any, said: str) -> None:
    failing = task.submit()
    with pytest.raises(tenure.TaskFailed, match=said):
        failing.result(timeout=LONG)
    told = failing.status()
    assert (told.attempt, told.crashes) == (1, 0)
    assert tasks_app.add.submit(1, 1).result(timeout=LONG) == 2


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


def test_a_task_knows_its_array_its_trace_and_its_dependencies(pool: str) -> None:
    trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
    first = tasks_app.add.submit(1)
    batch = tasks_app.surroundings.with_options(traceparent=trace, after=first).starmap([()])
    assert batch.results(timeout=LONG) == [[True, 0, trace, [], 1]]
    assert "".join(chunk.text for chunk in batch[0].logs(follow=True)) == "said\n"


def test_three_nested_workflows_finish_on_three_slots(pool: str) -> None:
    if pool == "asyncio":
        assert tasks_app.nested_later.submit(2).result(timeout=LONG) == 2
        return
    workflows = [tasks_app.nested.submit(4) for _ in range(3)]
    for workflow in workflows:
        assert workflow.result(timeout=LONG) == "4 over 3 over 2 over 1 over leaf"
        assert workflow.status().attempt == 1
    assert tasks_app.nested_later.submit(1).result(timeout=LONG) == 2


def test_a_task_that_waits_is_cancelled(pool: str) -> None:
    if pool == "asyncio":
        pytest.skip("a plain function on an event loop runs in a thread that asyncio cannot interrupt")
    never = tasks_app.app.client.submit("no such queue")
    task = tasks_app.waits_for.submit(never.id)
    until("it waits", lambda: task.status().state == "suspended")
    task.cancel("enough")
    with pytest.raises(tenure.TaskCancelled):
        task.result(timeout=LONG)
    with pytest.raises(tenure.TaskFailed, match="a task to wait for"):
        tasks_app.waits_for.submit("nonsense").result(timeout=LONG)


def test_many_are_mapped(pool: str) -> None:
    assert tasks_app.add.map(range(500)).results(timeout=LONG) == list(range(500))
    assert tasks_app.add.starmap([(1, 2), (3, 4)]).results(timeout=LONG) == [3, 7]
