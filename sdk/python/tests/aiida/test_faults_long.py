"""The other faults around AiiDA, and many workchains. They take minutes: ``cargo xtask test aiida``."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from installation import BIN, LONG, Installation, until
from test_faults import sleeper

#: The states of two calculations on a computer that takes one.
WAITS = ["ready", "running"]

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.fixture
def slots(aiida: Installation) -> Iterator[None]:
    """Two slots for each worker."""
    aiida.verdi("config", "set", "daemon.worker_process_slots", 2)
    yield
    aiida.verdi("config", "unset", "daemon.worker_process_slots")


@pytest.fixture
def short_lease(aiida: Installation) -> Iterator[None]:
    """A worker that falls silent is believed for three seconds."""
    set_broker(aiida, {"lease": 3})
    yield
    set_broker(aiida, {})


def set_broker(aiida: Installation, settings: dict[str, Any]) -> None:
    from aiida.manage.configuration import get_config

    config = get_config()
    profile = config.get_profile("test")
    profile.set_process_controller("tenure", settings)
    config.update_profile(profile)
    config.store()


@pytest.fixture
def pausing(aiida: Installation) -> Iterator[None]:
    """A calculation whose worker is lost waits for its user; a workchain goes on."""
    aiida.run("tenure-aiida", "switch", "test", "--on-lost-calculation", "pause")
    yield
    aiida.run("tenure-aiida", "switch", "test", "--on-lost-calculation", "requeue")


def test_f2_a_kill_reaches_the_children(daemon: Installation) -> None:
    from processes import TwoChildren

    node = daemon.submit(TwoChildren, code=daemon.code)
    children = daemon.children(node, 2)
    short, long = sorted(children, key=lambda child: child.pk)
    daemon.ends(short)
    daemon.submitted_job(long)
    said = daemon.verdi("process", "kill", node.pk, "--timeout", 60)
    assert "processed" in said, said
    assert daemon.ends(node).is_killed
    assert daemon.ends(long).is_killed
    assert short.is_finished_ok


def test_f3_watch_tells_every_change(aiida: Installation) -> None:
    node = sleeper(aiida, 0)
    command = [str(BIN / "verdi"), "process", "watch", str(node.pk)]
    watch = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    # What is not told in time never comes.
    overdue = threading.Timer(LONG, watch.kill)
    overdue.start()
    try:
        assert watch.stdout is not None
        seen = ""
        while "watching" not in seen.lower():
            line = watch.stdout.readline()
            assert line, seen
            seen += line
        # The process can begin only now.
        aiida.start_daemon()
        while "finished" not in seen and (line := watch.stdout.readline()):
            seen += line
    finally:
        overdue.cancel()
        watch.kill()
        watch.wait()
    assert "running" in seen and "finished" in seen, seen
    try:
        assert aiida.ends(node).is_finished_ok
    finally:
        aiida.stop_daemon()


def test_f5_the_broker_dies_while_a_process_runs_and_the_daemon_restarts(daemon: Installation) -> None:
    node = sleeper(daemon, 15)
    (child,) = daemon.children(node)
    daemon.submitted_job(child)
    daemon.kill_broker()
    until("the workers are back", daemon.worker_pids)
    daemon.stop_daemon()
    daemon.start_daemon()
    assert daemon.ends(node).is_finished_ok


def test_f6_a_waiting_task_never_expires(aiida: Installation) -> None:
    node = sleeper(aiida, 0)
    task = next(task for task in aiida.broker.iterate_tasks() if task.body["args"]["pid"] == node.pk)
    assert task.info.expires_at is None
    assert task.info.until is None
    aiida.start_daemon()
    try:
        assert aiida.ends(node).is_finished_ok
    finally:
        aiida.stop_daemon()


@pytest.mark.parametrize("thaw_after", [None, 2.9, 3.3])
def test_f7_a_frozen_worker_makes_no_step_after_its_lease(
    aiida: Installation, short_lease: None, tmp_path: Path, thaw_after: Any
) -> None:
    from aiida.orm import Int, Str
    from processes import Steps

    aiida.start_daemon(2)
    try:
        path = tmp_path / "steps"
        node = aiida.submit(Steps, path=Str(str(path)), count=Int(60))
        until("some steps are done", lambda: path.exists() and len(path.read_text().splitlines()) >= 3)
        frozen = aiida.holder(node)
        os.kill(frozen, signal.SIGSTOP)
        if thaw_after is not None:
            time.sleep(thaw_after)
            with contextlib.suppress(ProcessLookupError):
                os.kill(frozen, signal.SIGCONT)
        assert aiida.ends(node).is_finished_ok
        until("the frozen worker has ended", lambda: not is_alive(frozen))
        steps = [tuple(map(int, line.split())) for line in path.read_text().splitlines()]
        owners = [pid for _, pid in steps]
        begun = next(index for index, pid in enumerate(owners) if pid != frozen)
        # Not one line of the frozen worker after the first of the next one.
        assert frozen not in owners[begun:], steps
        # A step that was written and not yet saved as a checkpoint is made again by the next owner, and only that one.
        counts = Counter(step for step, _ in steps)
        assert set(counts) == set(range(60))
        assert sum(counts.values()) <= 61, steps
    finally:
        aiida.stop_daemon()


def test_a_second_task_for_a_process_that_runs_makes_no_second_owner(aiida: Installation, tmp_path: Path) -> None:
    """As `verdi devel rabbitmq tasks revive` submits it."""
    from aiida.orm import Int, Str
    from processes import Steps

    aiida.start_daemon(2)
    try:
        path = tmp_path / "steps"
        node = aiida.submit(Steps, path=Str(str(path)), count=Int(60))
        until("some steps are done", lambda: path.exists() and len(path.read_text().splitlines()) >= 3)
        body = next(task.body for task in aiida.broker.iterate_tasks() if task.body["args"]["pid"] == node.pk)
        for _ in range(3):
            aiida.broker.get_communicator().task_send(body, no_reply=True)
        assert aiida.ends(node).is_finished_ok
        steps = [tuple(map(int, line.split())) for line in path.read_text().splitlines()]
        assert [step for step, _ in steps] == list(range(60)), steps
        assert len({pid for _, pid in steps}) == 1
        until("every task has ended", lambda: not list(aiida.broker.iterate_tasks()))
    finally:
        aiida.stop_daemon()


def test_a_cancelled_task_kills_its_process(daemon: Installation) -> None:
    node = sleeper(daemon, 300)
    (child,) = daemon.children(node)
    daemon.submitted_job(child)
    task = next(task for task in daemon.broker.iterate_tasks() if task.body["args"]["pid"] == node.pk)
    with daemon.broker.client() as client:
        client.cancel(task.info.id, "not wanted any more")
        assert daemon.ends(node).is_killed
        assert daemon.ends(child).is_killed
        until("the task has ended", lambda: client.show(task.info.id).state == "cancelled")
    assert f"the process is killed: pk={node.pk} reason=not wanted any more" in daemon.daemon_log()


def test_a_calculation_whose_worker_is_lost_waits_for_its_user(aiida: Installation, pausing: None) -> None:
    aiida.start_daemon()
    try:
        node = sleeper(aiida, 15)
        (child,) = aiida.children(node)
        aiida.submitted_job(child)
        job, killed = child.get_job_id(), aiida.holder(child)
        assert aiida.task(node).terms.on_lost == "requeue" and aiida.task(child).terms.on_lost == "pause"
        os.kill(killed, signal.SIGKILL)
        until("the calculation is paused", lambda: aiida.task(child).state == "paused")
        # The workchain is with the next worker, which has slots for the calculation, too.
        until("the workchain goes on", lambda: aiida.holder(node) != killed)
        task = aiida.task(child)
        assert (task.state, task.attempt) == ("paused", 1)
        aiida.refresh()
        assert not child.is_terminated and not node.is_terminated
        with aiida.broker.client() as client:
            client.resume(task.id)
        assert aiida.ends(child).is_finished_ok
        assert aiida.ends(node).is_finished_ok
        assert child.get_job_id() == job
    finally:
        aiida.stop_daemon()


def test_verdi_pauses_and_plays_a_process(daemon: Installation) -> None:
    # Long enough for the command to start on a busy machine.
    node = sleeper(daemon, 45)
    (child,) = daemon.children(node)
    daemon.verdi("process", "pause", node.pk, "--timeout", 60)

    def is_paused() -> bool:
        daemon.refresh()
        return bool(node.paused)

    until("the workchain is paused", is_paused)
    assert daemon.ends(child).is_finished_ok
    assert f"{node.pk} " in daemon.verdi("process", "list", "--paused")
    assert not node.is_terminated
    daemon.verdi("process", "play", node.pk, "--timeout", 60)
    assert daemon.ends(node).is_finished_ok
    assert not node.paused


def test_f8_two_slots_and_three_nested_workchains(aiida: Installation, slots: None) -> None:
    aiida.start_daemon(1)
    try:
        nodes = [sleeper(aiida, 0, depth=3) for _ in range(3)]
        for node in nodes:
            assert aiida.ends(node).is_finished_ok
            assert node.outputs.result.value == 5
    finally:
        aiida.stop_daemon()


def test_f10_repair_finds_a_lost_task(aiida: Installation) -> None:
    node = sleeper(aiida, 0)
    for task in aiida.broker.iterate_tasks():
        if task.body["args"]["pid"] == node.pk:
            with task.processing() as outcome:
                outcome.set_result(False)
    assert node.pk not in {task.body["args"]["pid"] for task in aiida.broker.iterate_tasks()}
    said = aiida.verdi("process", "repair")
    assert f"Revived process `{node.pk}`" in said
    assert "No inconsistencies" in aiida.verdi("process", "repair")
    aiida.start_daemon()
    try:
        assert aiida.ends(node).is_finished_ok
    finally:
        aiida.stop_daemon()


def test_a_process_without_a_task_is_revived_when_a_worker_starts(aiida: Installation) -> None:
    lost, unwanted = sleeper(aiida, 0), sleeper(aiida, 0)
    tasks = {task.body["args"]["pid"]: task for task in aiida.broker.iterate_tasks()}
    tasks[lost.pk].remove()
    with aiida.broker.client() as client:
        client.cancel(tasks[unwanted.pk].info.id, "not wanted")
    aiida.start_daemon()
    try:
        assert aiida.ends(lost).is_finished_ok
        assert f"process {unwanted.pk} has no task, because its last task" in aiida.daemon_log()
        assert not unwanted.is_terminated
    finally:
        aiida.run("tenure-aiida", "reconcile", "--fix")
        assert aiida.ends(unwanted).is_finished_ok
        aiida.stop_daemon()


def test_a_limit_of_a_computer_holds_across_workers(aiida: Installation) -> None:
    aiida.run("tenure-aiida", "limit", "computer:here", 1)
    aiida.start_daemon(2)
    try:
        nodes = [sleeper(aiida, 2) for _ in range(3)]
        most = 0

        def all_ended() -> bool:
            nonlocal most
            with aiida.broker.client() as client:
                most = max([most, *(limit.in_use for limit in client.limits() if limit.tag == "computer:here")])
            aiida.refresh()
            return all(node.is_terminated for node in nodes)

        until("all have ended", all_ended)
        assert most == 1
        assert all(node.is_finished_ok for node in nodes)
    finally:
        aiida.stop_daemon()
        aiida.run("tenure-aiida", "limit", "computer:here", "off")


def test_a_limit_is_raised_while_calculations_wait_for_it(aiida: Installation) -> None:
    def in_use() -> int:
        with aiida.broker.client() as client:
            return sum(limit.in_use for limit in client.limits() if limit.tag == "computer:here")

    aiida.run("tenure-aiida", "limit", "computer:here", 1)
    aiida.start_daemon()
    nodes = []
    try:
        # They are killed below.
        nodes = [sleeper(aiida, 600) for _ in range(2)]
        calculations = [aiida.children(node)[0] for node in nodes]
        until("one runs and one waits", lambda: sorted(aiida.task(one).state for one in calculations) == WAITS)
        assert in_use() == 1
        aiida.run("tenure-aiida", "limit", "computer:here", 2)
        until("both run", lambda: [aiida.task(one).state for one in calculations] == ["running"] * 2)
        assert in_use() == 2
    finally:
        for node in nodes:
            aiida.verdi("process", "kill", node.pk, "--timeout", 60)
            aiida.ends(node)
        aiida.stop_daemon()
        aiida.run("tenure-aiida", "limit", "computer:here", "off")


@pytest.mark.parametrize("workers", [1, 2])
def test_many_workchains(aiida: Installation, workers: int, capsys: pytest.CaptureFixture[str]) -> None:
    from aiida.orm import Int
    from aiida.workflows.arithmetic.multiply_add import MultiplyAddWorkChain

    aiida.start_daemon(workers)
    try:
        started = time.monotonic()
        nodes = [
            aiida.submit(MultiplyAddWorkChain, x=Int(number), y=Int(2), z=Int(3), code=aiida.code)
            for number in range(50)
        ]

        def all_ended() -> bool:
            aiida.refresh()
            return all(node.is_terminated for node in nodes)

        until("all have ended", all_ended, 600)
        took = time.monotonic() - started
        theirs = 116 if workers == 1 else 76
        with capsys.disabled():
            print(f"\n50 MultiplyAddWorkChain with {workers} workers: {took:.0f} s (RabbitMQ: {theirs} s)")
        assert Counter(node.outputs.result.value for node in nodes) == Counter(2 * number + 3 for number in range(50))
    finally:
        aiida.stop_daemon()
