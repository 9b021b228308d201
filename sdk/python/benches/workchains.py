"""How long a real AiiDA takes for many workchains: with Tenure and, if it is installed, with RabbitMQ in turn.

The interpreter needs the wheel and aiida-core: ``target/python/venv/bin/python benches/workchains.py``.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any, Optional

from figures import rabbitmq_server

BIN = Path(sys.executable).parent
#: How long all workchains may take.
LONG = 1_200.0


def main() -> int:
    """Measures everything."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--count", type=int, default=50, help="how many workchains")
    arguments.add_argument("--workers", type=int, nargs="*", default=[1, 2], help="with how many workers of the daemon")
    arguments.add_argument("--rounds", type=int, default=1, help="how often")
    arguments.add_argument("--measure", nargs=2, metavar=("PROFILE", "WORKERS"), help=argparse.SUPPRESS)
    said = arguments.parse_args()
    if said.measure is not None:
        print(*measure(said.measure[0], int(said.measure[1]), said.count))
        return 0
    folder = tempfile.mkdtemp(prefix="tenure-workchains-")
    os.environ.update(AIIDA_PATH=folder, PATH=f"{BIN}{os.pathsep}{os.environ['PATH']}")
    try:
        with rabbitmq_server() as server:
            profiles = ["tenure"] if server is None else ["tenure", "rabbitmq"]
            run("tenure-aiida", "setup", "tenure")
            if server is not None:
                add_rabbitmq(server[0])
            for profile in profiles:
                run("verdi", "-p", profile, "config", "set", "runner.poll.interval", 2)
                run("verdi", "-p", profile, "config", "set", "daemon.timeout", 60)
            for workers in said.workers:
                for _ in range(said.rounds):
                    for profile in profiles:
                        command = [sys.executable, __file__, "--measure", profile, str(workers)]
                        took, here, there = run(*command, "--count", said.count).split()[-3:]
                        told = f"{took} s; CPU {here} s to submit and wait, {there} s of the workers"
                        print(f"{said.count} workchains, {workers} workers, {profile}: {told}", flush=True)
    finally:
        run("tenure-aiida", "stop")
        shutil.rmtree(folder, ignore_errors=True)
    return 0


def run(*command: Any) -> str:
    """Runs a program; returns what it says."""
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{command} ended with {done.returncode}: {done.stdout}{done.stderr}")
    return done.stdout


def add_rabbitmq(port: int) -> None:
    """A profile like the other one, with RabbitMQ."""
    code = f"""
from aiida.manage.configuration import create_profile, get_config
config = get_config()
settings = dict(broker_protocol="amqp", broker_username="guest", broker_password="guest", broker_host="127.0.0.1")
settings.update(broker_port={port}, broker_virtual_host="", broker_parameters={{}})
create_profile(
    config,
    name="rabbitmq",
    email="aiida@localhost",
    storage_backend="core.sqlite_dos",
    storage_config={{"filepath": config.dirpath + "/repository/rabbitmq"}},
    broker_backend="core.rabbitmq",
    broker_config=settings,
)
config.store()
"""
    run(sys.executable, "-c", code)


def measure(name: str, workers: int, count: int) -> tuple[str, str, str]:
    """Seconds from the first submission to the end of the last workchain, and of CPU: here, and of the workers."""
    from aiida import load_profile
    from aiida.engine import submit
    from aiida.engine.daemon.client import get_daemon_client
    from aiida.manage import get_manager
    from aiida.orm import Computer, InstalledCode, Int, load_code
    from aiida.workflows.arithmetic.multiply_add import MultiplyAddWorkChain

    load_profile(name)
    code: Optional[Any] = None
    try:
        code = load_code("bash@here")
    except Exception:
        path = str(Path(os.environ["AIIDA_PATH"]) / f"work-{name}")
        computer = Computer("here", "localhost", "", "core.local", "core.direct", path).store()
        computer.configure(safe_interval=0.0)
        computer.set_minimum_job_poll_interval(0.0)
        code = InstalledCode(computer, "/bin/bash", label="bash", default_calc_job_plugin="core.arithmetic.add").store()
    daemon = get_daemon_client(name)
    daemon.start_daemon(workers)
    try:
        # Both brokers meet workers that have started.
        time.sleep(15)
        started, here, there = time.monotonic(), time.process_time(), cpu_of_workers(name)
        nodes = [submit(MultiplyAddWorkChain, x=Int(one), y=Int(2), z=Int(3), code=code) for one in range(count)]
        session = get_manager().get_profile_storage().get_session()
        while not all(node.is_terminated for node in nodes):
            assert time.monotonic() - started < LONG, Counter(str(node.process_state) for node in nodes)
            time.sleep(0.2)
            session.commit()
        figures = time.monotonic() - started, time.process_time() - here, cpu_of_workers(name) - there
        assert [node.outputs.result.value for node in nodes] == [2 * one + 3 for one in range(count)]
        took, own, theirs = (f"{figure:.1f}" for figure in figures)
        return took, own, theirs
    finally:
        daemon.stop_daemon(wait=True)


def cpu_of_workers(name: str) -> float:
    """Seconds of CPU that the workers of a profile's daemon have used."""
    import psutil

    used = 0.0
    for process in psutil.process_iter(["cmdline", "cpu_times"]):
        if {"daemon", "worker", name} <= set(process.info["cmdline"] or ()):
            used += process.info["cpu_times"].user + process.info["cpu_times"].system
    return used


if __name__ == "__main__":
    sys.exit(main())
