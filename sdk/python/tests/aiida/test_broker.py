"""The broker plugin and the command, with a real AiiDA."""

from __future__ import annotations

import os
import signal
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from installation import Installation, until
from tenure import BadSetting
from tenure.aiida._config import BrokerConfig
from tenure.aiida._service import Service
from tenure.testing import Broker
from test_faults import sleeper


def test_settings_that_make_no_sense_are_refused() -> None:
    assert BrokerConfig.read({"lease": 5}).said() == {"lease": 5}
    assert BrokerConfig.read(None).said() == {}
    for told, why in (
        ({"adress": "127.0.0.1"}, "no 'adress'"),
        ({"lease": 0}, "lease is 0"),
        ({"workchain_slots": 0}, "workchain_slots is 0"),
        ({"on_lost_workchain": "forget"}, "requeue or pause"),
        ({"key_file": "/no/such/file"}, "key file cannot be read"),
    ):
        with pytest.raises(BadSetting, match=why):
            BrokerConfig.read(told).secret()


def test_the_broker_of_an_installation_starts_once_and_stops_when_asked(tmp_path: Path) -> None:
    service = Service(tmp_path / "tenure")
    assert not service.is_running() and service.pid() is None
    assert service.ensure()
    try:
        first = service.pid()
        assert first is not None
        assert not Service(tmp_path / "tenure").ensure()
        os.kill(first, signal.SIGKILL)
        until("it is dead", lambda: not service.is_running())
        assert service.ensure()
        assert service.pid() not in (None, first)
        assert not service.was_stopped()
    finally:
        assert service.stop()
    assert service.was_stopped() and not service.is_running()
    assert not service.stop()


def test_a_directory_with_a_long_name_has_a_socket_all_the_same(tmp_path: Path) -> None:
    service = Service(tmp_path / ("long" * 30))
    assert service.ensure()
    assert service.stop()


def test_a_profile_may_name_its_broker(tenure_broker: Broker, aiida: Installation) -> None:
    from tenure.aiida import TenureBroker

    profiles = [
        SimpleNamespace(uuid=uuid, process_control_config={"address": tenure_broker.address}) for uuid in ("one", "two")
    ]
    one, two = (TenureBroker(profile) for profile in profiles)
    try:
        assert one.service is None and one.is_local
        assert one.check_service_reachable()
        one.get_communicator().task_send({"task": "continue", "args": {"pid": 999_999}}, no_reply=True)
        assert [task.body["args"]["pid"] for task in one.iterate_tasks()] == [999_999]
        # Profiles do not see each other.
        assert list(two.iterate_tasks()) == []
        assert "1 tasks wait" in str(one) and "0 tasks wait" in str(two)
    finally:
        one.close()
        two.close()
    tenure_broker.kill()
    assert not one.check_service_reachable()
    assert "error" in one.probe_service_status()
    assert "not reachable" in str(one)


def task_of(aiida: Installation, node: Any) -> Any:
    def found() -> Any:
        return next((task for task in aiida.broker.iterate_tasks() if task.body["args"]["pid"] == node.pk), None)

    return until(f"process {node.pk} has a task", found)


def test_the_commands_tell_and_mend(aiida: Installation) -> None:
    node = sleeper(aiida, 0)
    info = task_of(aiida, node).info
    assert (info.queue, info.terms.slots) == ("aiida", 0)
    assert info.name.startswith(f"{node.pk} Nested-")
    assert info.terms.on_lost == "requeue"
    assert "1 tasks wait" in aiida.run("tenure-aiida", "status")
    listed = aiida.run("tenure-aiida", "tasks")
    assert f"{node.pk} " in listed and "Nested" in listed and "ready" in listed
    assert "WORKER" in aiida.run("tenure-aiida", "workers")
    assert "Tenure" in aiida.verdi("status")

    assert "at most 2" in aiida.run("tenure-aiida", "limit", "computer:here", 2)
    assert "no limit" in aiida.run("tenure-aiida", "limit", "computer:here", "off")
    assert "computer:LABEL" in aiida.run("tenure-aiida", "limit", "here", 2, fails=True)
    assert "no number" in aiida.run("tenure-aiida", "limit", "computer:here", "many", fails=True)

    assert "agree" in aiida.run("tenure-aiida", "reconcile")
    communicator = aiida.broker.get_communicator()
    communicator.task_send(task_of(aiida, node).body, no_reply=True)
    said = aiida.run("tenure-aiida", "reconcile", fails=True)
    assert "1 tasks are duplicates" in said
    assert "Mended" in aiida.run("tenure-aiida", "reconcile", "--fix")
    assert "agree" in aiida.run("tenure-aiida", "reconcile")

    # A task that was lost: the process is too young to tell at first.
    from tenure.aiida import _reconcile

    task_of(aiida, node).remove()
    before, _reconcile.YOUNG = _reconcile.YOUNG, timedelta(days=1)
    try:
        difference = _reconcile.compare(aiida.broker, list(aiida.broker.iterate_tasks()))
        assert (difference.lost, difference.elsewhere) == ([], [node.pk])
        _reconcile.YOUNG = timedelta(0)
        difference = _reconcile.compare(aiida.broker, list(aiida.broker.iterate_tasks()))
        assert difference.lost == [node.pk]
        # Some program runs it.
        communicator.add_rpc_subscriber(lambda *_: {}, str(node.pk))
        assert _reconcile.compare(aiida.broker, []).elsewhere == [node.pk]
        communicator.remove_rpc_subscriber(str(node.pk))
        _reconcile.mend(aiida.broker, difference)
    finally:
        _reconcile.YOUNG = before
    assert task_of(aiida, node).info.state == "ready"

    aiida.start_daemon()
    try:
        assert aiida.ends(node).is_finished_ok
        until("the task is gone", lambda: not list(aiida.broker.iterate_tasks()))
    finally:
        aiida.stop_daemon()


def test_a_calculation_is_told_with_its_computer_and_depth(daemon: Installation) -> None:
    node = sleeper(daemon, 20, depth=2)
    (inner,) = daemon.children(node)
    (calculation,) = daemon.children(inner)
    task = task_of(daemon, calculation).info
    assert task.queue == "aiida"
    assert task.terms.tags == ["computer:here"]
    assert (task_of(daemon, node).info.priority, task_of(daemon, inner).info.priority, task.priority) == (0, 1, 2)
    assert f"{calculation.pk} " in daemon.run("tenure-aiida", "tasks")
    daemon.verdi("process", "kill", node.pk, "--timeout", 60)
    assert daemon.ends(node).is_killed
    assert daemon.ends(calculation).is_killed


def test_a_profile_is_switched_with_its_active_processes(aiida: Installation) -> None:
    """From no broker, and from RabbitMQ that is gone."""
    node = sleeper(aiida, 0)
    task_of(aiida, node).remove()
    from aiida.manage.configuration import get_config

    config = get_config()
    profile = config.get_profile("test")
    profile.set_process_controller("core.rabbitmq", {"broker_host": "127.0.0.1", "broker_port": 1})
    config.update_profile(profile)
    config.store()
    try:
        assert "switch test" in aiida.run("tenure-aiida", "tasks", fails=True)
        assert "1 active" in aiida.run("tenure-aiida", "switch", "test", "--from-rabbitmq", "--dry-run")
        assert "1 processes have a task again" in aiida.run("tenure-aiida", "switch", "test", "--from-rabbitmq")
    finally:
        profile.set_process_controller("tenure", {})
        config.update_profile(profile)
        config.store()
    assert "uses Tenure already" in aiida.run("tenure-aiida", "switch", "test")
    aiida.start_daemon()
    try:
        assert aiida.ends(node).is_finished_ok
    finally:
        aiida.stop_daemon()
    assert "there already" in aiida.run("tenure-aiida", "setup", "test", fails=True)
    assert "cannot be loaded" in aiida.run("tenure-aiida", "status", "-p", "nobody", fails=True)
