"""Makes and changes AiiDA's profiles."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Optional

from .._fields import FieldLogger
from ..errors import TenureError
from ..sync_client import SyncClient
from ._config import BACKEND, BrokerConfig
from ._reconcile import revive
from ._terms import pk_of
from .broker import ACTIVE, ListedTask, TenureBroker

log = FieldLogger("tenure.aiida")

#: How long a broker that runs elsewhere may take to answer when a profile is set up for it.
CHECK_SECONDS = 10.0


class ProfileError(TenureError):
    """A profile is not as it should be for what was asked."""


def create(name: str, email: str, storage: str, path: Optional[Path], broker: BrokerConfig, not_default: bool) -> str:
    """Makes a profile that uses Tenure."""
    from aiida.manage.configuration import create_profile, get_config

    config = get_config(create=True)
    if name in config.profile_names:
        raise ProfileError(f"profile {name} exists already: change it with `tenure-aiida switch {name}`")
    folder = path or Path(config.dirpath) / "repository" / name
    profile = create_profile(
        config,
        name=name,
        email=email,
        storage_backend=storage,
        storage_config={"filepath": str(folder)},
        broker_backend=BACKEND,
        broker_config=broker.said(),
    )
    if not not_default or config.default_profile_name is None:
        config.set_default_profile(profile.name, overwrite=True)
    config.store()
    return str(profile.name)


def check(broker: BrokerConfig) -> None:
    """Raises what is wrong with a broker that runs elsewhere, before anything is changed for it."""
    if broker.address is not None:
        with SyncClient(broker.address, key=broker.secret(), connect_timeout=CHECK_SECONDS) as client:
            client.ping()


def load(name: Optional[str]) -> TenureBroker:
    """Loads a profile; its broker comes back."""
    from aiida import load_profile
    from aiida.common.exceptions import ConfigurationError
    from aiida.manage import get_manager

    try:
        profile = load_profile(name)
    except ConfigurationError as error:
        raise ProfileError(f"the profile cannot be loaded: {error}") from error
    broker = get_manager().get_broker()
    if not isinstance(broker, TenureBroker):
        raise ProfileError(
            f"profile {profile.name} uses {profile.process_control_backend or 'no broker'}, not Tenure: change that "
            f"with `tenure-aiida switch {profile.name}`"
        )
    return broker


def inspect(name: str) -> tuple[Optional[str], dict[str, Any], list[int]]:
    """The broker that a profile uses, its settings, and its active processes."""
    from aiida import load_profile
    from aiida.common.exceptions import ConfigurationError

    try:
        profile = load_profile(name)
    except ConfigurationError as error:
        raise ProfileError(f"profile {name} cannot be loaded: {error}") from error
    return profile.process_control_backend, dict(profile.process_control_config or {}), _active()


def switch(name: str, settings: BrokerConfig) -> tuple[TenureBroker, int]:
    """Stops the daemon, changes the profile, and makes a task for every active process. If the profile has used Tenure
    in another place, the tasks there are removed, and those that were paused are paused here.
    """
    from aiida.engine.daemon.client import DaemonException, get_daemon_client
    from aiida.manage import get_manager
    from aiida.manage.configuration import get_config

    daemon = get_daemon_client(name)
    if daemon.is_daemon_running:
        try:
            daemon.stop_daemon(wait=True)
        except DaemonException as error:
            why = f"the daemon does not stop ({error}), and nothing was changed"
            raise ProfileError(f"{why}: run `verdi daemon stop`, then try again") from error
    config = get_config()
    profile: Any = config.get_profile(name)
    before = TenureBroker(profile) if profile.process_control_backend == BACKEND else None
    profile.set_process_controller(BACKEND, settings.said())
    config.update_profile(profile)
    config.store()
    get_manager().reset_profile()
    broker = load(name)
    broker.get_communicator()
    known = {pk_of(task.body) for task in broker.iterate_tasks()}
    lost = [pk for pk in _active() if pk not in known]
    for pk in lost:
        revive(broker, pk)
    if before is not None and (before.address, before.namespace) != (broker.address, broker.namespace):
        _leave(before, broker)
    return broker, len(lost)


def _leave(before: TenureBroker, broker: TenureBroker) -> None:
    """Removes the tasks that a profile has in the place where it was. What a user has to decide stays undecided."""
    try:
        with before.client() as client:
            read = [ListedTask.read(before, client, info) for info in client.list(states=ACTIVE)]
    except TenureError as error:
        log.warning(
            "the broker that the profile has used does not answer: its tasks stay there",
            extra={"address": before.address, "error": str(error)},
        )
        return
    left = [task for task in read if task is not None]
    paused = {pk_of(task.body) for task in left if task.info.state == "paused"}
    with broker.client() as client:
        for task in broker.iterate_tasks():
            if pk_of(task.body) in paused:
                client.pause(task.info.id)
    for task in left:
        task.remove()


def _active() -> list[int]:
    from aiida.orm import ProcessNode, QueryBuilder

    states = ["created", "waiting", "running"]
    query = QueryBuilder().append(ProcessNode, filters={"attributes.process_state": {"in": states}}, project=["id"])
    return sorted(query.all(flat=True))
