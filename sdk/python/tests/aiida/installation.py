"""A real AiiDA installation with a real daemon, for tests."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Callable

HERE = Path(__file__).parent
BIN = Path(sys.executable).parent
#: What a process may take on a busy machine.
LONG = float(os.environ.get("TENURE_TEST_SECONDS", "300"))


def until(what: str, so: Callable[[], Any], seconds: float = LONG) -> Any:
    """Waits until something is so; returns what it is."""
    deadline = time.monotonic() + seconds
    while not (found := so()):
        assert time.monotonic() < deadline, f"not in time: {what}"
        time.sleep(0.1)
    return found


class Installation:
    """AiiDA in a folder of its own, with one profile that uses Tenure."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        os.environ["PYTHONPATH"] = str(HERE)
        os.environ["PATH"] = f"{BIN}{os.pathsep}{os.environ['PATH']}"
        sys.path.insert(0, str(HERE))
        self.run("tenure-aiida", "setup", "test")
        self.verdi("config", "set", "runner.poll.interval", 2)
        # On a busy machine circus takes long to answer. The daemon's client reads the options of its profile alone.
        self.verdi("config", "set", "daemon.timeout", 60)
        from aiida import load_profile

        load_profile("test")
        from aiida.orm import Computer, InstalledCode

        computer = Computer("here", "localhost", "", "core.local", "core.direct", str(folder / "work")).store()
        computer.configure(safe_interval=0.0)
        computer.set_minimum_job_poll_interval(0.0)
        code = InstalledCode(computer, "/bin/bash", label="bash", default_calc_job_plugin="core.arithmetic.add")
        self.code = code.store()

    def run(self, *command: Any, fails: bool = False, timeout: float = LONG) -> str:
        """Runs a program of this installation; returns what it says."""
        words = [str(BIN / str(command[0])), *map(str, command[1:])]
        done = subprocess.run(words, capture_output=True, text=True, timeout=timeout, check=False)
        assert (done.returncode != 0) == fails, f"{words} ended with {done.returncode}: {done.stdout}{done.stderr}"
        return done.stdout + done.stderr

    def verdi(self, *command: Any, **how: Any) -> str:
        """Runs verdi."""
        return self.run("verdi", *command, **how)

    def submit(self, process: Any, **inputs: Any) -> Any:
        """Submits a process to the daemon."""
        from aiida.engine import submit

        return submit(process, **inputs)

    def refresh(self) -> None:
        """Sees what other programs wrote to the database."""
        from aiida.manage import get_manager

        get_manager().get_profile_storage().get_session().commit()

    def ends(self, node: Any) -> Any:
        """Waits until a process has ended."""

        def has_ended() -> bool:
            self.refresh()
            return bool(node.is_terminated)

        until(f"process {node.pk} ends; it is {node.process_state}", has_ended)
        return node

    def children(self, node: Any, count: int = 1) -> list[Any]:
        """Waits until a process has called this many others."""

        def called() -> list[Any]:
            self.refresh()
            found = node.called
            assert found or not node.is_terminated, f"process {node.pk} ended without a child: {node.exception}"
            return found if len(found) >= count else []

        found: list[Any] = until(f"process {node.pk} has {count} children", called)
        return found

    def submitted_job(self, node: Any) -> None:
        """Waits until a calculation has a job."""

        def has_job() -> bool:
            self.refresh()
            return node.get_job_id() is not None

        until(f"calculation {node.pk} has a job", has_job)

    def start_daemon(self, workers: int = 1) -> None:
        """Starts the daemon and waits for its workers."""
        self.verdi("daemon", "start", workers)
        until("the workers are there", lambda: len(self.worker_pids()) >= workers)

    def stop_daemon(self) -> None:
        """Stops the daemon."""
        self.verdi("daemon", "stop")

    def daemon_log(self) -> str:
        """What the daemon and its workers have logged."""
        from aiida.engine.daemon.client import get_daemon_client

        path = Path(get_daemon_client("test").daemon_log_file)
        return path.read_text() if path.exists() else ""

    @property
    def broker(self) -> Any:
        """The broker plugin of the profile in this process."""
        from aiida.manage import get_manager

        return get_manager().get_broker()

    def worker_pids(self) -> set[int]:
        """The processes of the daemon that the broker knows as live workers."""
        with self.broker.client() as client:
            live = [one.worker for one in client.workers() if one.presence == "live"]
        return {int(name.rsplit("-", 2)[1]) for name in live}

    def task(self, node: Any) -> Any:
        """Waits until a process has a task; returns what the broker tells of it."""

        def found() -> Any:
            tasks = self.broker.iterate_tasks()
            return next((task.info for task in tasks if task.body["args"]["pid"] == node.pk), None)

        return until(f"process {node.pk} has a task", found)

    def holder(self, node: Any) -> int:
        """Waits until a worker holds the task of a process; returns the worker's process."""

        def held() -> int:
            for task in self.broker.iterate_tasks():
                if task.body["args"]["pid"] == node.pk and task.info.holding is not None:
                    return int(task.info.holding.worker.rsplit("-", 2)[1])
            return 0

        pid: int = until(f"a worker holds process {node.pk}", held)
        return pid

    def kill_broker(self) -> int:
        """Kills the broker as a power failure would; returns its process."""
        pid: int = self.broker.service.pid()
        os.kill(pid, signal.SIGKILL)
        # A worker may have started the next one already.
        until("the broker is dead", lambda: self.broker.service.pid() != pid)
        return pid

    def close(self) -> None:
        """Stops everything that belongs to this installation."""
        from aiida.engine.daemon.client import get_daemon_client

        if get_daemon_client().is_daemon_running:
            self.stop_daemon()
        self.broker.close()
        self.broker.service.stop()
