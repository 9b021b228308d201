"""What goes wrong around AiiDA, one fault after another, with a real daemon."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from installation import Installation, until
from tenure.aiida._config import BrokerConfig

pytestmark = pytest.mark.timeout(900)

LEASE = BrokerConfig().lease


@pytest.fixture
def short_timeout(aiida: Installation) -> Iterator[None]:
    """Requests time out soon."""
    option = "broker.task_timeout" if "broker.task_timeout" in aiida.verdi("config", "list") else "rmq.task_timeout"
    aiida.verdi("config", "set", option, 1)
    yield
    aiida.verdi("config", "unset", option)


def sleeper(aiida: Installation, seconds: int, depth: int = 1) -> Any:
    """A workchain whose calculation takes so long."""
    from aiida.orm import Int
    from processes import Nested

    return aiida.submit(Nested, code=aiida.code, depth=Int(depth), sleep=Int(seconds))


def test_f1_a_killed_worker_loses_nothing(daemon: Installation) -> None:
    node = sleeper(daemon, 15)
    (child,) = daemon.children(node)
    daemon.submitted_job(child)
    job = child.get_job_id()
    pid = daemon.holder(node)
    task = next(task.info.id for task in daemon.broker.iterate_tasks() if task.body["args"]["pid"] == node.pk)
    with daemon.broker.client() as client, client.watch(task=task) as events:
        os.kill(pid, signal.SIGKILL)
        # The submitter learns it at once, not when the lease ends.
        told = events.next(LEASE / 2)
        assert told.kind == "holder-lost", told
    assert daemon.ends(node).is_finished_ok
    assert node.outputs.result.value == 3
    # The next worker has gone on with the job; it has not submitted another.
    assert child.get_job_id() == job
    assert pid not in daemon.worker_pids()


def test_f4_the_broker_dies_and_is_there_again(daemon: Installation) -> None:
    before = daemon.kill_broker()
    # Nothing but AiiDA's own programs starts it again.
    until("the workers are back", daemon.worker_pids)
    assert daemon.broker.service.pid() != before
    node = sleeper(daemon, 0)
    assert daemon.ends(node).is_finished_ok


def test_a_child_that_is_submitted_while_the_broker_is_away_runs_later(
    aiida: Installation, tmp_path: Path, short_timeout: None
) -> None:
    """The request times out, and AiiDA excepts a process that meets the exception."""
    from aiida.orm import Str
    from processes import SubmitsWhenTold

    aiida.start_daemon()
    try:
        node = aiida.submit(SubmitsWhenTold, code=aiida.code, path=Str(str(tmp_path)))
        until("it runs", (tmp_path / "here").exists)
        aiida.broker.service.stop()
        (tmp_path / "go").touch()

        def is_kept() -> bool:
            aiida.refresh()
            assert not node.is_terminated, f"it is {node.process_state}: {node.exception}"
            return "is kept and sent later" in aiida.daemon_log()

        until("the task of its child is kept", is_kept)
        aiida.broker.service.ensure()
        assert aiida.ends(node).is_finished_ok
        assert [child.is_finished_ok for child in node.called] == [True]
    finally:
        aiida.broker.service.ensure()
        aiida.stop_daemon()


def test_f9_what_is_submitted_while_the_daemon_is_down_runs_later(aiida: Installation) -> None:
    node = sleeper(aiida, 0)
    assert "created" in aiida.verdi("process", "list").lower()
    assert node.pk in {task.body["args"]["pid"] for task in aiida.broker.iterate_tasks()}
    aiida.start_daemon()
    try:
        assert aiida.ends(node).is_finished_ok
    finally:
        aiida.stop_daemon()
