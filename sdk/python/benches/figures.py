"""Figures of the SDK, printed beside their floors: ``cargo xtask bench python``.

They want a release build and a quiet machine. On a busy one, read the CPU time per operation, and the ratios within one
run. The exit code says whether every floor was reached.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Callable, Optional

from tenure.kiwi import Communicator
from tenure.testing import Broker

HERE = Path(__file__).parent
TASKS = HERE.parent / "tests"
#: What RabbitMQ 3.10 and AiiDA's core.zeromq reach on a machine with two cores, operations per second.
ELSEWHERE = {
    "task_send": "RabbitMQ 564, core.zeromq 2,738",
    "drain": "RabbitMQ 990, core.zeromq 1,898",
    "task and result": "RabbitMQ 242",
    "add and remove an RPC subscriber": "RabbitMQ 143, core.zeromq 1,673",
    "RPC round trip": "RabbitMQ 293, core.zeromq 832",
    "broadcast": "RabbitMQ 902, core.zeromq 1,920",
}
TASK_SEND_FLOOR = 1_500
FLOORS: dict[str, Optional[float]] = {
    "threads": TASK_SEND_FLOOR,
    "add and remove an RPC subscriber": 1_500,
    "RPC round trip": 900,
    "broadcast": 2_000,
}
#: How many threads send tasks at once.
SENDERS = 16
#: A folder without a disk.
MEMORY = "/dev/shm"
TICKS = os.sysconf("SC_CLK_TCK")


class Figures:
    """Measures and prints."""

    def __init__(self, pid: int) -> None:
        """``pid`` is the process of the broker."""
        self._pid = pid
        self.missed: list[str] = []
        print(f"{'':40}{'per second':>12}{'floor':>10}{'CPU here':>12}{'CPU broker':>12}")

    def measure(self, what: str, count: int, floor: Optional[float], work: Callable[[], object]) -> float:
        """Runs work that does ``count`` operations."""
        here, there, start = time.process_time(), cpu_of(self._pid), time.perf_counter()
        work()
        seconds = time.perf_counter() - start
        per = [(time.process_time() - here) / count * 1e6, (cpu_of(self._pid) - there) / count * 1e6]
        figure = count / seconds
        self.tell(what, figure, floor, [f"{one:,.0f} us" for one in per])
        return figure

    def tell(self, what: str, figure: float, floor: Optional[float], more: Optional[list[str]] = None) -> None:
        """Prints a figure."""
        said = f"{floor:,.0f}" if floor is not None else ""
        line = f"{what:40}{figure:>12,.0f}{said:>10}" + "".join(f"{one:>12}" for one in more or ["", ""])
        print(f"{line}   {ELSEWHERE[what]}" if what in ELSEWHERE else line, flush=True)
        if floor is not None and figure < floor:
            self.missed.append(what)


def cpu_of(pid: int) -> float:
    """Seconds of CPU that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def times(count: int, work: Callable[[], object]) -> Callable[[], None]:
    """The same work again and again."""

    def run() -> None:
        for _ in range(count):
            work()

    return run


def at_once(count: int, work: Callable[[], object]) -> Callable[[], None]:
    """The same work from several threads."""

    def run() -> None:
        with ThreadPoolExecutor(SENDERS) as threads:
            for done in [threads.submit(times(count // SENDERS, work)) for _ in range(SENDERS)]:
                done.result()

    return run


def communicator(figures: Figures, broker: Broker, count: int) -> None:
    """What a submission of AiiDA consists of."""
    disk = figures.measure("fdatasync alone", count, None, lambda: sync(broker.directory, count))
    connect = f"Communicator({broker.address!r}, namespace='bench')"
    with contextlib.closing(Communicator(broker.address, namespace="bench")) as ours:
        # A sender that waits for each of its tasks cannot be faster than the disk. Several share its writes.
        floors = dict(FLOORS, task_send=TASK_SEND_FLOOR if disk > 2 * TASK_SEND_FLOOR else None)
        kiwi(figures, ours, f"from tenure.kiwi import Communicator; communicator = {connect}", count, floors)


def kiwi(figures: Figures, ours: Any, connect: str, count: int, floors: dict[str, Optional[float]]) -> None:
    """What any communicator of kiwipy does. ``connect`` makes another one like it in another program."""

    def measure(what: str, work: Callable[[], object]) -> None:
        figures.measure(what, count, floors.get(what), work)

    task = {"task": "continue", "args": {"pid": 4711, "nowait": False, "tag": None}}
    send_one = lambda: ours.task_send(task, no_reply=True)  # noqa: E731
    measure("task_send", times(count, send_one))
    many = f"task_send from {SENDERS} threads"
    figures.measure(many, count, floors.get("threads"), at_once(count, send_one))
    sent = count + count // SENDERS * SENDERS
    done = threading.Semaphore(0)

    def drain() -> None:
        ours.add_task_subscriber(lambda *_: done.release(), "drain")
        for _ in range(sent):
            assert done.acquire(timeout=300)

    figures.measure("drain", sent, None, drain)
    measure("task and result", times(count, lambda: ours.task_send(task).result(30)))
    ours.remove_task_subscriber("drain")

    def subscribe() -> None:
        ours.remove_rpc_subscriber(ours.add_rpc_subscriber(lambda _, message: None, "4711"))

    measure("add and remove an RPC subscriber", times(count, subscribe))
    with receiver(connect):
        send = lambda: ours.rpc_send("echo", {"intent": "status"}).result(30)  # noqa: E731
        send()
        measure("RPC round trip", times(count, send))
    heard = threading.Semaphore(0)
    ours.add_broadcast_subscriber(lambda *_: heard.release())

    def broadcast() -> None:
        for _ in range(count):
            ours.broadcast_send(None, sender="4711", subject="state_changed.created.running")
        for _ in range(count):
            assert heard.acquire(timeout=60)

    measure("broadcast", broadcast)


def rabbitmq(count: int) -> None:
    """The same with kiwipy's own communicator and RabbitMQ, if it is installed."""
    with rabbitmq_server() as server:
        if server is None:
            print("RabbitMQ is left out: rabbitmq-server is not installed")
            return
        from kiwipy.rmq import RmqThreadCommunicator

        port, session = server
        url = f"amqp://guest:guest@127.0.0.1:{port}/"
        ours = RmqThreadCommunicator.connect(url)
        print("RabbitMQ, with kiwipy's own communicator:")
        connect = f"from kiwipy.rmq import RmqThreadCommunicator as R; communicator = R.connect({url!r})"
        with contextlib.closing(ours):
            kiwi(Figures(largest_of(session)), ours, connect, count, {})


@contextlib.contextmanager
def rabbitmq_server() -> Iterator[Optional[tuple[int, int]]]:
    """A private RabbitMQ: its port and its session. Nothing if it is not installed."""
    # Debian has a wrapper of this name, which starts the service of the system.
    server = shutil.which("rabbitmq-server", path=f"/usr/lib/rabbitmq/bin:{os.environ.get('PATH', '')}")
    if server is None:
        yield None
        return
    port = free_port()
    with tempfile.TemporaryDirectory() as folder:
        environment = {
            **os.environ,
            "HOME": folder,
            "RABBITMQ_NODENAME": f"tenure-bench-{port}@localhost",
            "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODE_PORT": str(port),
            "RABBITMQ_DIST_PORT": str(free_port()),
            "RABBITMQ_MNESIA_BASE": folder,
            "RABBITMQ_LOG_BASE": folder,
            "RABBITMQ_ENABLED_PLUGINS_FILE": os.path.join(folder, "plugins"),
            "ERL_EPMD_PORT": str(free_port()),
        }
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        process = subprocess.Popen([server], env=environment, start_new_session=True, **quiet)
        try:
            wait_for_server(port, process)
            yield port, process.pid
        finally:
            os.killpg(process.pid, signal.SIGTERM)
            process.wait(60)
            # It stays behind otherwise.
            subprocess.run(["epmd", "-kill"], env=environment, **quiet, check=False)


def wait_for_server(port: int, server: subprocess.Popen[bytes]) -> None:
    """Waits until a server takes connections."""
    deadline = time.monotonic() + 120
    while True:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        if time.monotonic() > deadline or server.poll() is not None:
            raise RuntimeError("the server does not answer")
        time.sleep(0.1)


def largest_of(session: int) -> int:
    """The process of a session that has used the most CPU: the server itself, not the script that started it."""
    used = {session: 0.0}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            if stat.read_text().rpartition(")")[2].split()[3] == str(session):
                used[int(stat.parent.name)] = cpu_of(int(stat.parent.name))
    return max(used, key=lambda pid: used[pid])


def in_memory(count: int) -> list[str]:
    """Durable submissions where the disk costs nothing: what the SDK and the broker take themselves."""
    if not os.access(MEMORY, os.W_OK):
        print(f"no figures with data in memory: {MEMORY} cannot be written")
        return []
    with (
        tempfile.TemporaryDirectory(dir=MEMORY) as folder,
        Broker(**{"data-dir": os.path.join(folder, "data")}) as broker,
    ):
        print(f"with data in memory ({MEMORY}):")
        figures = Figures(broker.pid)
        with contextlib.closing(Communicator(broker.address, namespace="bench")) as ours:
            task = {"task": "continue", "args": {"pid": 4711, "nowait": False, "tag": None}}
            send_one = lambda: ours.task_send(task, no_reply=True)  # noqa: E731
            figures.measure("task_send", count, TASK_SEND_FLOOR, times(count, send_one))
            figures.measure(f"task_send from {SENDERS} threads", count, TASK_SEND_FLOOR, at_once(count, send_one))
        return figures.missed


def sync(folder: str, count: int) -> None:
    """What the disk allows one client that waits for each of its tasks."""
    with open(os.path.join(folder, "synced"), "wb", buffering=0) as file:
        for _ in range(count):
            file.write(b"x" * 200)
            os.fdatasync(file.fileno())


@contextlib.contextmanager
def receiver(connect: str) -> Iterator[None]:
    """A subscriber of calls in a program of its own, as a worker of AiiDA is."""
    code = f"""
        import sys
        {connect}
        communicator.add_rpc_subscriber(lambda _, message: True, "echo")
        print("ready", flush=True)
        sys.stdin.read()
        communicator.close()
    """
    command = [sys.executable, "-c", textwrap.dedent(code)]
    program = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert program.stdout is not None
    program.stdout.readline()
    try:
        yield
    finally:
        program.communicate(timeout=60)


def mapped(figures: Figures, broker: Broker, count: int) -> float:
    """Tasks per second through one process, from the first submission to the last result."""
    sys.path.insert(0, str(TASKS))
    import tasks_app

    tasks_app.app.configure(address=broker.address)
    command = [sys.executable, "-m", "tenure", "work", "tasks_app:app", "--broker", broker.address]
    command += ["--pool", "processes", "--slots", "512", "--processes", "1"]
    worker = subprocess.Popen(command, cwd=TASKS)
    try:
        assert tasks_app.add.submit(1).result(timeout=60) == 1

        def run() -> None:
            results = tasks_app.add.map(range(count)).results(timeout=900)
            assert results == list(range(count))

        return figures.measure(f"map of {count:,} tasks", count, None, run)
    finally:
        worker.terminate()
        worker.wait(60)
        tasks_app.app.close()


def celery(count: int) -> Optional[float]:
    """The same with Celery and Redis: one process, nothing on disk. Nothing if either is missing."""
    python, redis = os.environ.get("TENURE_THIRD_PARTY_PYTHON", sys.executable), shutil.which("redis-server")
    has_celery = subprocess.run([python, "-c", "import celery, redis"], capture_output=True).returncode == 0
    if redis is None or not has_celery:
        print("Celery is left out: redis-server or the packages celery and redis are missing")
        return None
    port = free_port()
    with tempfile.TemporaryDirectory() as folder:
        code = f"""
            import sys, time
            from celery import Celery, group
            url = "redis://127.0.0.1:{port}/0"
            app = Celery("celery_tasks", broker=url, backend=url)
            @app.task
            def add(x, y=0):
                return x + y
            if __name__ == "__main__":
                count = int(sys.argv[1])
                add.delay(1).get(timeout=120)
                start = time.perf_counter()
                assert group(add.s(number) for number in range(count))().get(timeout=900) == list(range(count))
                print(count / (time.perf_counter() - start))
        """
        (Path(folder) / "celery_tasks.py").write_text(textwrap.dedent(code))
        started = [subprocess.Popen([redis, "--port", str(port), "--save", ""], stdout=subprocess.DEVNULL)]
        try:
            wait_for_server(port, started[0])
            command = [python, "-m", "celery", "-A", "celery_tasks", "worker", "-c", "1", "--loglevel", "ERROR"]
            quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
            started.append(subprocess.Popen(command, cwd=folder, **quiet))
            run = [python, "celery_tasks.py", str(count)]
            told = subprocess.run(run, cwd=folder, capture_output=True, text=True, timeout=1200)
            if told.returncode != 0:
                raise RuntimeError(f"Celery did not run its tasks: {told.stderr[-2000:]}")
            return float(told.stdout)
        finally:
            for process in reversed(started):
                process.terminate()
                process.wait(60)


def free_port() -> int:
    """A port on which no program listens at this moment."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def main() -> int:
    """Measures everything."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--requests", type=int, default=3_000, help="how many single requests of each kind")
    arguments.add_argument("--tasks", type=int, default=100_000, help="how many tasks to map")
    arguments.add_argument("--celery-tasks", type=int, default=5_000, help="how many tasks to map with Celery; 0: none")
    said = arguments.parse_args()
    with Broker() as broker:
        figures = Figures(broker.pid)
        communicator(figures, broker, said.requests)
        ours = mapped(figures, broker, said.tasks)
    figures.missed += in_memory(said.requests)
    rabbitmq(said.requests)
    theirs = celery(said.celery_tasks) if said.celery_tasks else None
    if theirs is not None:
        figures.tell(f"Celery with Redis, {said.celery_tasks:,} tasks", theirs, None)
        figures.tell("times as many as Celery", ours / theirs, 10)
    for what in figures.missed:
        print(f"below its floor: {what}")
    return 1 if figures.missed else 0


if __name__ == "__main__":
    sys.exit(main())
