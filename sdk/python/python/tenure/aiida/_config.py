"""What a profile says about its broker: the ``process_control`` section of AiiDA's configuration."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, Optional

from .._fields import FieldLogger
from .._settings import key_of_environment, key_of_file
from ..errors import BadSetting

log = FieldLogger("tenure.aiida")

#: The name of the entry point, and of the backend in a profile.
BACKEND = "tenure"
#: What a lost worker means for a process: ``requeue`` goes on from its checkpoint, ``pause`` waits for a human.
POLICIES = ("requeue", "pause")


#: The reason with which AiiDA removes a task whose process goes on or has ended.
REMOVED = "removed by AiiDA"
#: How long a broker gives its workers to return after a restart, unless its settings say otherwise.
RESTART_GRACE = 60.0


@dataclass(frozen=True)
class BrokerConfig:
    """The settings of a profile."""

    #: Where the broker is. Without it, the broker of this AiiDA installation is used, and started if it is not running.
    address: Optional[str] = None
    #: The broker's key, if it wants one; or a file that holds it. TENURE_KEY or TENURE_KEY_FILE is used without either.
    key: Optional[str] = None
    key_file: Optional[str] = None
    #: Separates the profiles of one broker. Without it: ``aiida-`` and the profile's uuid.
    namespace: Optional[str] = None
    #: Seconds after its last sign of life until which a worker that has fallen silent is believed.
    lease: float = 30.0
    #: How many workchains one worker takes at once. They wait for their children most of the time, so they weigh no
    #: slot: they do not count against ``daemon.worker_process_slots``, which limits calculations.
    workchain_slots: int = 2_000
    #: What a lost worker means for calculations and for workchains.
    on_lost_calculation: str = "requeue"
    on_lost_workchain: str = "requeue"

    @classmethod
    def read(cls, told: Optional[dict[str, Any]]) -> BrokerConfig:
        """Reads the section of a profile. Raises :class:`tenure.BadSetting` for what it does not know."""
        told = dict(told or {})
        known = {one.name for one in dataclasses.fields(cls)}
        unknown = sorted(set(told) - known)
        if unknown:
            raise BadSetting(
                f"the profile's broker settings have no {unknown[0]!r}; known are {', '.join(sorted(known))}"
            )
        made = cls(**{name: value for name, value in told.items() if value is not None})
        for name in ("on_lost_calculation", "on_lost_workchain"):
            if getattr(made, name) not in POLICIES:
                raise BadSetting(f"{name} is {getattr(made, name)!r}: use {' or '.join(POLICIES)}")
        if not 1 <= made.lease <= 86_400:
            raise BadSetting(f"lease is {made.lease}: use a number of seconds from 1 to 86400")
        if not 1 <= made.workchain_slots <= 65_536:
            raise BadSetting(f"workchain_slots is {made.workchain_slots}: use a number from 1 to 65536")
        return made

    def said(self) -> dict[str, Any]:
        """What goes into the profile: everything that is not the default."""
        defaults = BrokerConfig()
        return {
            one.name: getattr(self, one.name)
            for one in dataclasses.fields(self)
            if getattr(self, one.name) != getattr(defaults, one.name)
        }

    def long_lease(self) -> Optional[str]:
        """What is wrong with a lease that is longer than a restarted broker waits for its workers."""
        if self.lease <= RESTART_GRACE:
            return None
        why = (
            f"the lease of {self.lease:g} s is longer than the {RESTART_GRACE:g} s that a restarted broker waits for "
            "its workers: a worker that is frozen meanwhile may go on with a process that another one has"
        )
        if self.address is None:
            return f"{why}; use --lease {RESTART_GRACE:g} or less"
        return f"{why}; use --lease {RESTART_GRACE:g} or less, or start the broker with --restart-grace {self.lease:g}s"

    def secret(self) -> Optional[str]:
        """The key."""
        if self.key is not None:
            return self.key
        if self.key_file is not None:
            return key_of_file(self.key_file)
        return key_of_environment()


def warn_of_long_lease(config: BrokerConfig) -> None:
    """Warns of a profile whose lease is too long. Older versions took it."""
    why = config.long_lease()
    if why is not None:
        log.warning(why)
