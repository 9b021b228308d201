"""The broker plugin and the command, with a real AiiDA."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import signal
import subprocess
import threading
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import kiwipy
import pytest
from installation import BIN, Installation, until
from tenure import BadSetting
from tenure.aiida import _reconcile, _unsent
from tenure.aiida._config import BrokerConfig
from tenure.aiida._service import Service
from tenure.testing import Broker
from test_faults import sleeper

#: Many programs start in these stories, each of which takes seconds on a busy machine.
pytestmark = pytest.mark.timeout(900)


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


def test_tasks_that_were_not_accepted_are_sent_in_their_order_until_there_are_too_many(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(_unsent, "UNSENT_MAX", 2)
    monkeypatch.setattr(_unsent, "AGAIN_SECONDS", 0.01)
    away, sent = threading.Event(), []

    def send(task: Any) -> None:
        if away.is_set():
            raise kiwipy.TimeoutError("no broker")
        sent.append((task["args"]["pid"], unsent.terms_of(task)))

    away.set()
    unsent = _unsent.Unsent(send)
    one, two, three = ({"task": "continue", "args": {"pid": pk}} for pk in (1, 2, 3))
    assert unsent.terms_of(one) is None and not unsent
    assert unsent.keep(one, {"name": "one"}) and unsent.keep(two, {"name": "two"})
    assert unsent and not unsent.keep(three, {})
    away.clear()
    until("both are sent", lambda: not unsent)
    assert sent == [(1, {"name": "one"}), (2, {"name": "two"})]
    # The thread that sends has ended meanwhile, or not: what comes later is sent as well.
    assert unsent.keep(three, {"name": "three"})
    until("the third is sent", lambda: len(sent) == 3)
    unsent.close()
    assert not unsent.keep(one, {})


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
        assert one.service is None
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


def test_a_forked_program_has_a_communicator_of_its_own(tenure_broker: Broker, aiida: Installation) -> None:
    from tenure.aiida import TenureBroker

    broker = TenureBroker(SimpleNamespace(uuid="fork", process_control_config={"address": tenure_broker.address}))
    inherited = broker.get_communicator()
    inherited.add_rpc_subscriber(lambda _, message: message * 2, "parent")
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        # No fixture of the parent may be taken apart here.
        said = "nothing"
        try:
            communicator = broker.get_communicator()
            said = "inherited" if communicator is inherited else str(communicator.rpc_send("parent", 21).result(60))
            broker.close()
            broker.close()
        except BaseException as error:
            said = repr(error)
        finally:
            os.write(writer, said.encode())
            os._exit(0)
    os.close(writer)
    try:
        with open(reader) as told:
            assert told.read() == "42"
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    # The parent's is as before.
    assert broker.get_communicator() is inherited
    assert inherited.rpc_send("parent", 4).result(60) == 8
    broker.close()


def task_of(aiida: Installation, node: Any) -> Any:
    def found() -> Any:
        return next((task for task in aiida.broker.iterate_tasks() if task.body["args"]["pid"] == node.pk), None)

    return until(f"process {node.pk} has a task", found)


def test_the_commands_tell_and_mend(aiida: Installation) -> None:
    node = sleeper(aiida, 0)
    info = task_of(aiida, node).info
    assert (info.queue, info.terms.slots) == ("aiida", 0)
    assert info.name == f"{node.pk} Nested-{node.uuid[:8]}"
    assert info.terms.on_lost == "requeue"
    assert "1 tasks wait" in aiida.run("tenure-aiida", "status")
    listed = aiida.run("tenure-aiida", "tasks")
    assert f"{node.pk} " in listed and "Nested" in listed and "ready" in listed
    assert "WORKER" in aiida.run("tenure-aiida", "workers")
    assert "Tenure" in aiida.verdi("status")

    assert "at most 2" in aiida.run("tenure-aiida", "limit", "computer:here", 2)
    assert "no limit" in aiida.run("tenure-aiida", "limit", "computer:here", "off")
    assert "computer:LABEL" in aiida.run("tenure-aiida", "limit", "here", 2, fails=True)
    assert "is not a number" in aiida.run("tenure-aiida", "limit", "computer:here", "many", fails=True)

    assert "agree" in aiida.run("tenure-aiida", "reconcile")
    communicator = aiida.broker.get_communicator()
    # A process has one task, however often it is sent.
    communicator.task_send(task_of(aiida, node).body, no_reply=True)
    assert communicator.task_send(task_of(aiida, node).body).result(60).result(60) is False
    assert "agree" in aiida.run("tenure-aiida", "reconcile")
    with aiida.broker.client() as client:
        client.submit("aiida", client.body(info.id), name=f"{info.name}-0a1b2c3d")
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
    again = task_of(aiida, node).info
    assert (again.state, again.name) == ("ready", f"{node.pk} Nested-{node.uuid[:8]}~2")
    assert "  Nested  " in aiida.run("tenure-aiida", "tasks")

    aiida.start_daemon()
    try:
        assert aiida.ends(node).is_finished_ok
        until("the task is gone", lambda: not list(aiida.broker.iterate_tasks()))
    finally:
        aiida.stop_daemon()


def listed(aiida: Installation) -> str:
    """What `tenure list` shows of the profile."""
    command = f'eval "$({shlex.quote(str(BIN / "tenure-aiida"))} env)"; {shlex.quote(str(BIN / "tenure"))} list'
    return subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=60, check=True).stdout


def test_a_revived_process_has_a_task_until_it_ends(aiida: Installation) -> None:
    """`verdi devel rabbitmq tasks revive` asks for an answer before the process has ended."""
    node = sleeper(aiida, 3)
    revive = ("devel", "rabbitmq", "tasks", "revive", "--force", node.pk)
    lost = next(task for task in aiida.broker.iterate_tasks() if task.body["args"]["pid"] == node.pk)
    lost.remove()
    aiida.start_daemon()
    try:
        told = aiida.verdi(*revive)
        assert "No response" not in told and "Failed to deliver" not in told, told
        # AiiDA's launcher would end the task at once: a second worker could begin, and the next crash lose the process.
        (child,) = aiida.children(node)
        assert aiida.task(node).state == "running"
        told = aiida.verdi(*revive)
        assert "No response" not in told and "Failed to deliver" not in told, told
        assert "the process has a task already" in told and "state=running" in told, told
        assert aiida.ends(node).is_finished_ok and aiida.ends(child).is_finished_ok
    finally:
        aiida.stop_daemon()


def test_a_process_without_a_task_is_revived_unless_a_user_has_cancelled_it(
    aiida: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    from aiida.tools import delete_nodes

    monkeypatch.setattr(_reconcile, "YOUNG", timedelta(0))
    lost, unwanted, untouched = (sleeper(aiida, 0) for _ in range(3))
    task_of(aiida, lost).remove()
    with aiida.broker.client() as client:
        client.cancel(task_of(aiida, unwanted).info.id, "not wanted")
    assert _reconcile.revive_lost(aiida.broker, {untouched.pk}) == []
    suspects = {lost.pk, unwanted.pk, untouched.pk}
    assert _reconcile.revive_lost(aiida.broker, suspects) == [lost.pk]
    assert task_of(aiida, lost).info.state == "ready"
    assert _reconcile.revive_lost(aiida.broker, suspects) == []
    for node in (lost, untouched):
        task_of(aiida, node).remove()
    delete_nodes([lost.pk, unwanted.pk, untouched.pk], dry_run=False)


def test_a_sender_that_waits_for_a_process_with_a_task_gets_the_answer_of_a_launcher(aiida: Installation) -> None:
    from aiida.tools import delete_nodes

    node = sleeper(aiida, 0)
    body = {"task": "continue", "args": {"pid": node.pk, "nowait": False, "tag": None}}
    answer = aiida.broker.get_communicator().task_send(body)
    # A launcher is a coroutine: what comes first is its future.
    assert answer.result(30).result(30) is False
    (task,) = [task for task in aiida.broker.iterate_tasks() if task.body["args"]["pid"] == node.pk]
    task.remove()
    delete_nodes([node.pk], dry_run=False)


def test_a_process_with_the_pk_of_a_deleted_one_has_a_task_of_its_own(aiida: Installation) -> None:
    from aiida.orm import Int
    from aiida.tools import delete_nodes
    from processes import Nested

    inputs = {"code": aiida.code, "depth": Int(1).store(), "sleep": Int(0).store()}
    deleted = aiida.submit(Nested, **inputs)
    pk = deleted.pk
    left = task_of(aiida, deleted)
    delete_nodes([pk], dry_run=False)
    node = aiida.submit(Nested, **inputs)
    assert node.pk == pk, "the database gives each pk once"
    tasks = [task for task in aiida.broker.iterate_tasks() if task.body["args"]["pid"] == pk]
    assert sorted(task.body["uuid"] for task in tasks) == sorted([left.body["uuid"], node.uuid])
    # The task that was left behind is useless, whatever it says of its pk. A worker would run the other one with it.
    assert f"1 tasks belong to no active process: {pk}" in aiida.run("tenure-aiida", "reconcile", fails=True)
    aiida.start_daemon()
    try:
        assert aiida.ends(node).is_finished_ok
        with aiida.broker.client() as client:
            assert client.show(left.info.id).state == "cancelled"
        assert f"of the deleted process {pk} is removed" in aiida.daemon_log()
    finally:
        aiida.stop_daemon()


def test_a_calculation_is_submitted_with_its_computer_and_depth(daemon: Installation) -> None:
    # Killed below: on a busy machine, seconds pass until then.
    node = sleeper(daemon, 600, depth=2)
    (inner,) = daemon.children(node)
    (calculation,) = daemon.children(inner)
    task = task_of(daemon, calculation).info
    assert task.queue == "aiida"
    assert task.terms.tags == ["computer:here"]
    assert (task_of(daemon, node).info.priority, task_of(daemon, inner).info.priority, task.priority) == (0, 1, 2)
    assert f"{calculation.pk} " in daemon.run("tenure-aiida", "tasks")
    lines = listed(daemon).splitlines()
    assert [line for line in lines if f"{node.pk} Nested" in line], lines
    (line,) = [line for line in lines if f"{calculation.pk} ArithmeticAddCalculation" in line]
    assert "running" in line and "computer:here" in line, line
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
    assert "exists already" in aiida.run("tenure-aiida", "setup", "test", fails=True)
    assert "cannot be loaded" in aiida.run("tenure-aiida", "status", "-p", "absent", fails=True)


def settings_of(name: str) -> dict[str, Any]:
    """What the profile says about its broker, as another program wrote it."""
    from aiida.manage.configuration import get_config

    profiles = json.loads(Path(get_config().filepath).read_text())["profiles"]
    settings: dict[str, Any] = profiles[name]["process_control"]["config"]
    return settings


@pytest.fixture
def other_profile(aiida: Installation) -> Iterator[str]:
    """A profile with settings of its own."""
    name = "other"
    options = ["--lease", 10, "--workchain-slots", 7, "--on-lost-calculation", "pause", "--namespace", "of-other"]
    assert "is set up" in aiida.run("tenure-aiida", "setup", name, "--not-default", *options)
    yield name
    aiida.verdi("profile", "delete", name, "--force", "--delete-data")


def test_the_settings_of_a_profile_are_given_and_changed_by_commands(
    aiida: Installation, other_profile: str, tenure_broker: Broker
) -> None:
    settings = {"lease": 10.0, "workchain_slots": 7, "on_lost_calculation": "pause", "namespace": "of-other"}
    assert settings_of(other_profile) == settings
    switch = ["tenure-aiida", "switch", other_profile]
    assert "uses Tenure already" in aiida.run(*switch)
    assert "uses Tenure already" in aiida.run(*switch, "--on-lost-calculation", "pause")
    said = aiida.run(*switch, "--on-lost-workchain", "pause", "--dry-run")
    assert "other settings" in said and settings_of(other_profile) == settings
    # What is not given stays.
    assert "Switched" in aiida.run(*switch, "--on-lost-workchain", "pause", "--lease", 30)
    settings.update(on_lost_workchain="pause")
    del settings["lease"]
    assert settings_of(other_profile) == settings
    assert "from 1 to 86400" in aiida.run(*switch, "--lease", 0, fails=True)
    assert "use --lease 60 or less" in aiida.run(*switch, "--lease", 61, fails=True)
    assert "use --lease 60 or less" in aiida.run("tenure-aiida", "setup", "long", "--lease", 3600, fails=True)
    assert "invalid choice" in aiida.run(*switch, "--on-lost-workchain", "forget", fails=True)
    assert settings_of(other_profile) == settings

    # Another address.
    assert tenure_broker.address in aiida.run(*switch, "--broker", tenure_broker.address)
    assert settings_of(other_profile) == {**settings, "address": tenure_broker.address}
    assert tenure_broker.address in aiida.run("tenure-aiida", "status", "-p", other_profile)
    assert "uses Tenure already" in aiida.run(*switch, "--broker", tenure_broker.address)
    # That broker may be set up for it.
    assert "--restart-grace 3600s" in aiida.run(*switch, "--lease", 3600)
    assert settings_of(other_profile) == {**settings, "address": tenure_broker.address, "lease": 3600.0}
    aiida.run(*switch, "--lease", 30)
    assert "not allowed with" in aiida.run(*switch, "--broker", "127.0.0.1:1", "--own-broker", fails=True)
    assert "unix:" in aiida.run(*switch, "--own-broker")
    assert settings_of(other_profile) == settings


def test_tasks_move_with_a_profile_to_another_broker(aiida: Installation, tenure_broker: Broker) -> None:
    """They are removed where they were; a task that was paused waits for its user there, too."""
    waiting, paused = sleeper(aiida, 0), sleeper(aiida, 0)
    with aiida.broker.client() as client:
        client.pause(task_of(aiida, paused).info.id)
    try:
        said = aiida.run("tenure-aiida", "switch", "test", "--broker", tenure_broker.address)
        assert "2 processes have a task again" in said, said
        assert list(aiida.broker.iterate_tasks()) == []
        with tenure_broker.client(namespace=aiida.broker.namespace) as client:
            states = {one.name: one.state for one in client.list()}
        names = [f"{node.pk} Nested-{node.uuid[:8]}" for node in (waiting, paused)]
        assert states == dict(zip(names, ("ready", "paused")))
    finally:
        aiida.run("tenure-aiida", "switch", "test", "--own-broker")
    assert task_of(aiida, waiting).info.state == "ready"
    task = task_of(aiida, paused).info
    assert task.state == "paused"
    with aiida.broker.client() as client:
        client.resume(task.id)
    aiida.start_daemon()
    try:
        assert aiida.ends(waiting).is_finished_ok and aiida.ends(paused).is_finished_ok
    finally:
        aiida.stop_daemon()


def test_a_switch_stops_the_daemon(aiida: Installation) -> None:
    aiida.start_daemon()
    try:
        assert "running" in aiida.verdi("daemon", "status")
        assert "Switched" in aiida.run("tenure-aiida", "switch", "test", "--workchain-slots", 5)
        assert "not running" in aiida.verdi("daemon", "status", fails=True)
        assert not aiida.worker_pids()
    finally:
        aiida.run("tenure-aiida", "switch", "test", "--workchain-slots", BrokerConfig().workchain_slots)
        with contextlib.suppress(AssertionError):
            aiida.stop_daemon()


def test_a_switch_changes_nothing_if_the_daemon_does_not_stop(aiida: Installation) -> None:
    from aiida.engine.daemon.client import get_daemon_client

    aiida.start_daemon()
    circus = get_daemon_client("test").get_daemon_pid()
    os.kill(circus, signal.SIGSTOP)
    aiida.verdi("config", "set", "daemon.timeout", 1)
    try:
        said = aiida.run("tenure-aiida", "switch", "test", "--workchain-slots", 5, fails=True)
        assert "the daemon does not stop" in said and "nothing was changed" in said and "Traceback" not in said
        config = json.loads((aiida.folder / ".aiida" / "config.json").read_text())
        assert "workchain_slots" not in config["profiles"]["test"]["process_control"]["config"]
    finally:
        os.kill(circus, signal.SIGCONT)
        aiida.verdi("config", "set", "daemon.timeout", 60)
        # It may still obey the request of which nothing was heard.
        with contextlib.suppress(AssertionError):
            until("the daemon has ended", lambda: not get_daemon_client("test").is_daemon_running, 10)
        if get_daemon_client("test").is_daemon_running:
            aiida.stop_daemon()


def test_env_lets_the_command_tenure_see_the_tasks_of_a_profile(aiida: Installation, tmp_path: Path) -> None:
    node = sleeper(aiida, 0)
    task = task_of(aiida, node)
    said = aiida.run("tenure-aiida", "env")
    assert f"export TENURE_BROKER={aiida.broker.address}\n" in said
    assert f"export TENURE_NAMESPACE={aiida.broker.namespace}\n" in said
    assert "TENURE_KEY" not in said
    assert f"{node.pk} Nested" in listed(aiida)
    task.remove()

    from aiida.tools import delete_nodes
    from tenure.aiida import TenureBroker

    # A worker that starts would submit a task for it.
    delete_nodes([node.pk], dry_run=False)

    for key in ({"key_file": str(tmp_path / "key")}, {"key": "3c" * 32}):
        config = {"address": "127.0.0.1:1", "namespace": "mine", **key}
        environment = TenureBroker(SimpleNamespace(uuid="env", process_control_config=config)).environment()
        expected = {f"TENURE_{name.upper()}": value for name, value in key.items()}
        assert environment == {"TENURE_BROKER": "127.0.0.1:1", "TENURE_NAMESPACE": "mine", **expected}


def test_the_log_of_the_daemon_says_what_the_plugin_says(aiida: Installation) -> None:
    absent = 999_999
    aiida.broker.get_communicator().task_send({"task": "continue", "args": {"pid": absent}}, no_reply=True)
    before = len(aiida.daemon_log())
    aiida.start_daemon()
    try:
        line = f"1 tasks belong to no active process: {absent}; `tenure-aiida reconcile --fix` mends this\n"
        # Versions of AiiDA differ in their form. Without a handler, the line would stand there without any.
        forms = (f"tenure.aiida: [WARNING] {line}", f"Warning: {line}")
        until("the worker tells of the task", lambda: any(one in aiida.daemon_log()[before:] for one in forms))
        until("the task has ended", lambda: not list(aiida.broker.iterate_tasks()))
    finally:
        aiida.stop_daemon()


def test_log_lines_show_their_fields(caplog: pytest.LogCaptureFixture) -> None:
    from tenure.aiida import broker

    broker.fence("a task", {"task": "continue", "args": {"pid": 17}}, "lost")
    (record,) = caplog.records
    assert record.getMessage() == "another worker has a process of this program: pk=17 task=a task reason=lost"
    assert record.pk == 17
