"""Makes and changes AiiDA's profiles."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Optional

from ..errors import TenureError
from ._config import BACKEND, BrokerConfig
from ._reconcile import revive
from .broker import TenureBroker


class ProfileError(TenureError):
    """A profile is not as it should be for what was asked."""


def create(name: str, email: str, storage: str, path: Optional[Path], broker: BrokerConfig, not_default: bool) -> str:
    """Makes a profile that uses Tenure."""
    from aiida.manage.configuration import create_profile, get_config

    config = get_config(create=True)
    if name in config.profile_names:
        raise ProfileError(f"profile {name} is there already: change it with `tenure-aiida switch {name}`")
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


def inspect(name: str) -> tuple[Optional[str], list[int]]:
    """The broker that a profile uses, and its active processes."""
    from aiida import load_profile
    from aiida.common.exceptions import ConfigurationError

    try:
        profile = load_profile(name)
    except ConfigurationError as error:
        raise ProfileError(f"profile {name} cannot be loaded: {error}") from error
    return profile.process_control_backend, _active()


def switch(name: str, settings: BrokerConfig) -> tuple[TenureBroker, int]:
    """Stops the daemon, changes the profile, and makes a task for every active process."""
    from aiida.engine.daemon.client import get_daemon_client
    from aiida.manage import get_manager
    from aiida.manage.configuration import get_config

    daemon = get_daemon_client(name)
    if daemon.is_daemon_running:
        daemon.stop_daemon(wait=True)
    config = get_config()
    profile: Any = config.get_profile(name)
    profile.set_process_controller(BACKEND, settings.said())
    config.update_profile(profile)
    config.store()
    get_manager().reset_profile()
    broker = load(name)
    broker.get_communicator()
    known = {task.body.get("args", {}).get("pid") for task in broker.iterate_tasks() if isinstance(task.body, dict)}
    lost = [pk for pk in _active() if pk not in known]
    for pk in lost:
        revive(broker, pk)
    return broker, len(lost)


def _active() -> list[int]:
    from aiida.orm import ProcessNode, QueryBuilder

    states = ["created", "waiting", "running"]
    query = QueryBuilder().append(ProcessNode, filters={"attributes.process_state": {"in": states}}, project=["id"])
    return sorted(query.all(flat=True))
