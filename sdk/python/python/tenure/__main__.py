"""``python -m tenure work module:app`` runs a worker; every other verb is one of the ``tenure`` program."""

from __future__ import annotations

import argparse
import logging
import os
import sys
from collections.abc import Sequence
from typing import Any, Optional

from . import _binary
from ._load import load_app, log_to_stderr
from ._pool_asyncio import AsyncioPool
from ._pool_processes import ProcessPool
from ._pool_threads import ThreadPool
from .errors import BadSetting, TenureError
from .worker import Pool, tasks_max


def parser() -> argparse.ArgumentParser:
    """The arguments of ``work``."""
    made = argparse.ArgumentParser(
        prog="python -m tenure work", description="Run the tasks of an app until told to terminate (SIGTERM drains)."
    )
    made.add_argument("app", help="where the app is: module:name, or module if its name is app")
    made.add_argument("--slots", type=int, default=os.cpu_count() or 1, help="how many tasks to take at once")
    made.add_argument(
        "--light-slots",
        type=int,
        help="how many tasks that weigh no slot to take besides; as many as slots if they run in processes, else 1000",
    )
    made.add_argument(
        "--pool",
        choices=["threads", "processes", "asyncio"],
        default="processes",
        help="where tasks run; in processes one that is cancelled or over its limit is killed, and a crash is its own",
    )
    made.add_argument("--processes", type=int, help="how many processes, if fewer than slots: more tasks wait in each")
    made.add_argument(
        "--kill-after", type=float, default=5.0, help="seconds until a process is killed that does not stop its task"
    )
    made.add_argument("--queues", help="which queues to serve, with commas between; those of the tasks if not given")
    made.add_argument("--capabilities", default="", help="what the worker offers, with commas between")
    made.add_argument(
        "--resources",
        default="",
        help="what it has for tasks that need quantities: gpus=2,mem=32GB, with commas between",
    )
    made.add_argument("--broker", help="the broker's address [env: TENURE_BROKER]")
    made.add_argument("--namespace", help="the namespace [env: TENURE_NAMESPACE]")
    made.add_argument("--id", help="the worker's name; made of host and process if not given")
    made.add_argument("--lease", type=float, help="seconds for which its attempts are believed when it is silent")
    made.add_argument("--log-level", default="INFO", help="what is logged to stderr")
    return made


def work(arguments: Sequence[str]) -> int:
    """Runs a worker until it has left."""
    said = parser().parse_args(arguments)
    log_to_stderr(said.log_level.upper())
    # As `python -m` does for its own module.
    sys.path.insert(0, os.getcwd())
    try:
        app = load_app(said.app)
        settings: dict[str, Any] = {"slots": said.slots, "id": said.id, "lease": said.lease}
        settings["queues"] = said.queues.split(",") if said.queues else app.queues
        settings["capabilities"] = [name for name in said.capabilities.split(",") if name]
        settings["resources"] = _resources(said.resources)
        settings["light_slots"] = said.light_slots
        # What a task submits goes to the same broker.
        elsewhere = {"address": said.broker, "namespace": said.namespace}
        elsewhere = {name: value for name, value in elsewhere.items() if value}
        app.configure(**elsewhere)
        pool: Pool
        if said.pool == "processes":
            # Each task needs a process, whatever it weighs.
            level = said.log_level.upper()
            light = said.slots if said.light_slots is None else said.light_slots
            pool = ProcessPool(said.app, said.slots, said.processes, said.kill_after, elsewhere, light, level)
            settings["light_slots"] = light
        elif said.pool == "asyncio":
            pool = AsyncioPool(app.handle_async)
        else:
            pool = ThreadPool(app.handle, tasks_max(said.slots, said.light_slots))
        worker = app.worker(pool=pool, **settings)
        worker.start()
        logging.getLogger("tenure.worker").info(
            "%s tasks on queues %s, %s slots, pool %s",
            len(app.tasks),
            ", ".join(settings["queues"]),
            said.slots,
            said.pool,
        )
        worker.run()
    except TenureError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


def _resources(said: str) -> dict[str, str]:
    pairs = [pair.partition("=") for pair in said.split(",") if pair]
    for name, equals, quantity in pairs:
        if not (name and equals and quantity):
            raise BadSetting(f"--resources is {said!r}: write NAME=QUANTITY, such as gpus=2,mem=32GB")
    return {name: quantity for name, _, quantity in pairs}


def main(arguments: Optional[Sequence[str]] = None) -> int:
    """The program."""
    arguments = sys.argv[1:] if arguments is None else arguments
    if arguments and arguments[0] == "work":
        return work(arguments[1:])
    try:
        binary = _binary.find()
    except TenureError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    os.execv(binary, [binary, *arguments])


if __name__ == "__main__":
    sys.exit(main())
