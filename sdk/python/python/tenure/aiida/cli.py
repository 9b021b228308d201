"""The command ``tenure-aiida``."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Optional

from ..errors import TenureError
from . import _profiles
from ._config import BACKEND, POLICIES, BrokerConfig
from ._reconcile import compare, mend
from ._service import Service
from ._terms import label_of, pk_of
from .broker import ACTIVE, ListedTask, service_directory


def main(arguments: Optional[Sequence[str]] = None) -> int:
    """Runs the command. The exit code is 0, or 1 if something is wrong."""
    said = parser().parse_args(arguments)
    try:
        return int(said.run(said))
    except (TenureError, _profiles.ProfileError) as error:
        print(f"tenure-aiida: {error}", file=sys.stderr)
        return 1


def parser() -> argparse.ArgumentParser:
    """The arguments of all verbs."""
    made = argparse.ArgumentParser(prog="tenure-aiida", description="Use Tenure as the message broker of AiiDA.")
    verbs = made.add_subparsers(required=True, metavar="VERB")

    setup = verbs.add_parser("setup", help="create a profile that uses Tenure")
    setup.add_argument("profile", help="the name of the new profile")
    setup.add_argument("--email", default="aiida@localhost", help="the email of its default user")
    setup.add_argument("--storage", choices=["core.sqlite_dos"], default="core.sqlite_dos", help="where its data go")
    setup.add_argument("--storage-path", type=Path, help="the folder of its data")
    setup.add_argument("--not-default", action="store_true", help="do not make it the default profile")
    _add_broker(setup)
    setup.set_defaults(run=_setup)

    switch = verbs.add_parser("switch", help="let a profile use Tenure, or change how it does")
    switch.add_argument("profile", help="the profile to change")
    switch.add_argument(
        "--from-rabbitmq", action="store_true", help="the profile uses RabbitMQ, which may be gone already"
    )
    switch.add_argument("--dry-run", action="store_true", help="say what would be done")
    _add_broker(switch).add_argument(
        "--own-broker", action="store_true", help="let AiiDA start its own broker again, instead of an address"
    )
    switch.set_defaults(run=_switch)

    for name, run, text in (
        ("status", _status, "tell whether the broker answers, and what it has to do"),
        ("tasks", _tasks, "list the tasks of a profile, who holds them, and why they wait"),
        ("workers", _workers, "list the workers of a profile"),
        ("env", _env, "print the variables by which the command tenure finds the broker and the profile's tasks"),
        ("start", _start, "start the broker of this AiiDA installation"),
        ("stop", _stop, "stop the broker of this AiiDA installation"),
    ):
        verb = verbs.add_parser(name, help=text)
        _add_profile(verb)
        verb.set_defaults(run=run)

    limit = verbs.add_parser("limit", help="limit how many calculations run at once on a computer, across all workers")
    limit.add_argument("tag", help="computer:LABEL")
    limit.add_argument("count", help="a number, or off")
    _add_profile(limit)
    limit.set_defaults(run=_limit)

    reconcile = verbs.add_parser("reconcile", help="compare AiiDA's active processes with the broker's tasks")
    reconcile.add_argument("--fix", action="store_true", help="make missing tasks and remove useless ones")
    _add_profile(reconcile)
    reconcile.set_defaults(run=_reconcile)
    return made


def _add_profile(verb: argparse.ArgumentParser) -> None:
    verb.add_argument("-p", "--profile", help="the profile; the default one if not given")


def _add_broker(verb: argparse.ArgumentParser) -> Any:
    """The settings of a profile. Returns the group of those that say where the broker is."""
    defaults = BrokerConfig()
    where = verb.add_mutually_exclusive_group()
    where.add_argument("--broker", help="a broker's address (host:port, unix:/path); without it AiiDA starts its own")
    verb.add_argument("--key-file", type=Path, help="the file with the broker's key")
    verb.add_argument("--namespace", help="the part of the broker for this profile (default: aiida- and its uuid)")
    verb.add_argument(
        "--lease",
        type=float,
        metavar="SECONDS",
        help=f"how long a silent worker is believed (default: {defaults.lease:g})",
    )
    verb.add_argument(
        "--workchain-slots",
        type=int,
        metavar="N",
        help=f"how many workchains a worker takes at once (default: {defaults.workchain_slots})",
    )
    for kind in ("calculation", "workchain"):
        verb.add_argument(
            f"--on-lost-{kind}",
            choices=POLICIES,
            help=f"resume a {kind} whose worker was lost from its checkpoint, or pause it (default: requeue)",
        )
    return where


def _settings(said: argparse.Namespace) -> dict[str, Any]:
    """The settings that were given, and those alone."""
    given = {
        "address": said.broker,
        "key_file": None if said.key_file is None else str(said.key_file.resolve()),
        "namespace": said.namespace,
        "lease": said.lease,
        "workchain_slots": said.workchain_slots,
        "on_lost_calculation": said.on_lost_calculation,
        "on_lost_workchain": said.on_lost_workchain,
    }
    return {name: value for name, value in given.items() if value is not None}


def _setup(said: argparse.Namespace) -> int:
    settings = BrokerConfig.read(_settings(said))
    _check_lease(settings)
    _profiles.check(settings)
    name = _profiles.create(said.profile, said.email, said.storage, said.storage_path, settings, said.not_default)
    broker = _profiles.load(name)
    broker.get_communicator()
    print(f"Profile {name} is set up: {broker}")
    broker.close()
    print("Start its workers with: verdi daemon start")
    return 0


def _check_lease(settings: BrokerConfig) -> None:
    """Refuses a lease that is too long for the broker that AiiDA starts; that of another one may be set up for it."""
    why = settings.long_lease()
    if why is None:
        return
    if settings.address is None:
        raise _profiles.ProfileError(why)
    print(f"tenure-aiida: warning: {why}", file=sys.stderr)


def _switch(said: argparse.Namespace) -> int:
    before, configured, active = _profiles.inspect(said.profile)
    settings = _settings(said)
    if before == BACKEND:
        # What is not given stays as it is.
        settings = {**configured, **settings}
        if said.own_broker:
            settings.pop("address", None)
        elif said.key_file is not None:
            settings.pop("key", None)
        if BrokerConfig.read(settings) == BrokerConfig.read(configured):
            print(f"Profile {said.profile} uses Tenure already.")
            return 0
    wanted = BrokerConfig.read(settings)
    _check_lease(wanted)
    if said.from_rabbitmq and before != "core.rabbitmq":
        raise _profiles.ProfileError(f"profile {said.profile} uses {before or 'no broker'}, not core.rabbitmq")
    _profiles.check(wanted)
    what = "other settings" if before == BACKEND else f"{before or 'no broker'} → {BACKEND}"
    print(f"Profile {said.profile}: {what}, {len(active)} active processes.")
    if said.dry_run:
        return 0
    broker, revived = _profiles.switch(said.profile, wanted)
    print(f"Switched: {broker}")
    print(f"{revived} processes have a task again.")
    broker.close()
    print("Start the workers with: verdi daemon start")
    return 0


def _status(said: argparse.Namespace) -> int:
    broker = _profiles.load(said.profile)
    status = broker.probe_service_status()
    if not status["connected"]:
        why = status["error"] if broker.service is None else "start it with `tenure-aiida start`"
        print(f"The broker at {broker.address} does not answer: {why}")
        return 1
    print(broker)
    if status["pid"]:
        print(f"Process {status['pid']}, log {_service().log_path}")
    return 0


def _env(said: argparse.Namespace) -> int:
    broker = _profiles.load(said.profile)
    for name, value in broker.environment().items():
        print(f"export {name}={shlex.quote(value)}")
    return 0


def _tasks(said: argparse.Namespace) -> int:
    broker = _profiles.load(said.profile)
    rows = []
    with broker.client() as client:
        for info in client.list(states=ACTIVE):
            task = ListedTask.read(broker, client, info)
            pk = "" if task is None else str(pk_of(task.body) or "")
            held = info.holding.worker if info.holding is not None else ""
            since = info.holding.since if info.holding is not None else info.submitted_at
            why = "" if info.state == "running" else str(client.explain(info.id))
            label = label_of(info.name)
            row = (pk, label, info.state, str(info.priority), " ".join(info.terms.tags), str(info.attempt))
            rows.append((*row, f"{since:%Y-%m-%d %H:%M:%S}" if since else "", held or why))
    _print(("PK", "PROCESS", "STATE", "PRIORITY", "TAGS", "ATTEMPT", "SINCE", "HELD BY / WHY IT WAITS"), rows)
    return 0


def _workers(said: argparse.Namespace) -> int:
    broker = _profiles.load(said.profile)
    with broker.client() as client:
        rows = [
            (
                one.worker,
                one.presence,
                " ".join(one.queues),
                f"{one.slots_used}/{one.slots}",
                one.version or "",
                f"{one.last_seen:%H:%M:%S}" if one.last_seen else "",
            )
            for one in client.workers()
        ]
    _print(("WORKER", "PRESENCE", "QUEUE", "TASKS", "VERSION", "LAST SEEN"), rows)
    return 0


def _limit(said: argparse.Namespace) -> int:
    if not said.tag.startswith("computer:"):
        raise _profiles.ProfileError(f"{said.tag!r} is not a tag of AiiDA: use computer:LABEL")
    try:
        count = None if said.count == "off" else int(said.count)
    except ValueError:
        raise _profiles.ProfileError(f"{said.count!r} is not a number: use a count, or off") from None
    if count is not None and count < 0:
        raise _profiles.ProfileError("a limit is zero or more, or off")
    with _profiles.load(said.profile).client() as client:
        client.set_limit(said.tag, count)
    print(f"{said.tag}: {'no limit' if count is None else f'at most {count} at once'}")
    return 0


def _reconcile(said: argparse.Namespace) -> int:
    broker = _profiles.load(said.profile)
    try:
        difference = compare(broker, list(broker.iterate_tasks()))
        print(f"{difference}.".capitalize())
        if difference.elsewhere:
            print(f"Without a task, but young or run by a program: {', '.join(map(str, difference.elsewhere))}.")
        if difference and said.fix:
            mend(broker, difference)
            print("Mended.")
            return 0
        return 1 if difference else 0
    finally:
        broker.close()


def _service() -> Service:
    return Service(service_directory())


def _start(said: argparse.Namespace) -> int:
    service = _service()
    started = service.ensure()
    print(
        f"The broker {'was started' if started else 'is running already'}: {service.address}, process {service.pid()}"
    )
    return 0


def _stop(said: argparse.Namespace) -> int:
    print("The broker has stopped." if _service().stop() else "No broker of this AiiDA installation is running.")
    return 0


def _print(titles: tuple[str, ...], rows: list[tuple[Any, ...]]) -> None:
    table = [titles, *rows]
    widths = [max(len(row[column]) for row in table) for column in range(len(titles))]
    for row in table:
        print("  ".join(text.ljust(width) for text, width in zip(row, widths)).rstrip())


if __name__ == "__main__":
    sys.exit(main())
