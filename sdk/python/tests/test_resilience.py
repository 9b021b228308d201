"""What users of other queues ask for: nothing is lost when the interpreter, the process or the broker misbehaves."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import multiprocessing
import os
import signal
import socket
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path
from typing import Optional

import pytest
import tenure
from conftest import LONG, until
from tenure.testing import Broker

#: As short as the broker allows, so that the tests are.
QUICK = {"heartbeat": 0.2, "lost_after": 1.0, "lease": 2.0}


def run_python(code: str, *arguments: str, timeout: float = LONG) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", textwrap.dedent(code), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=timeout)


def hold_the_interpreter(seconds: float) -> None:
    """Keeps the interpreter's lock: `PyDLL` calls without letting it go."""
    ctypes.PyDLL(None).usleep(int(seconds * 1_000_000))


def test_a_handler_may_hold_the_interpreter_longer_than_the_lease(tenure_broker: Broker) -> None:
    # In a process of its own: this one would stand still with it.
    code = """
        import ctypes, sys, tenure
        def hold(context):
            ctypes.PyDLL(None).usleep(5_000_000)
            return str(context.attempt)
        tenure.Worker(hold, queues=["hold"], address=sys.argv[1], heartbeat=0.2, lost_after=1.0, lease=2.0).run()
    """
    worker = subprocess.Popen([sys.executable, "-c", textwrap.dedent(code), tenure_broker.address])
    try:
        with tenure_broker.client() as client:
            task = client.submit("hold", b"", on_lost="fail")
            assert task.result(timeout=LONG) == b"1"
            kinds = {event.kind for event in task.events() if isinstance(event, tenure.Event)}
            assert not kinds & {"holder-lost", "crashed"}
    finally:
        worker.terminate()
        assert worker.wait(LONG) == 0


def test_a_handler_may_block_its_event_loop_longer_than_the_lease(tenure_broker: Broker) -> None:
    async def block(context: tenure.Context) -> str:
        time.sleep(4)  # noqa: ASYNC251
        return str(context.attempt)

    with tenure_broker.client() as client, tenure_broker.worker(["block"], block, slots=2, **QUICK):
        task = client.submit("block", b"", on_lost="fail")
        assert task.result(timeout=LONG) == b"1"


def test_a_worker_that_was_frozen_past_its_lease_is_fenced(tenure_broker: Broker) -> None:
    code = """
        import sys, tenure
        def work(context):
            try:
                context.sleep(600 if context.attempt == 1 else 0)
            except tenure.TaskInterrupted as interrupted:
                print("fenced", context.attempt, interrupted.interrupt.kind, flush=True)
                raise
            return f"attempt {context.attempt}"
        tenure.Worker(work, queues=["frozen"], address=sys.argv[1], heartbeat=0.2, lost_after=1.0, lease=2.0).run()
    """
    command = [sys.executable, "-c", textwrap.dedent(code), tenure_broker.address]
    frozen = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        with tenure_broker.client() as client:
            task = client.submit("frozen", b"", on_lost="requeue")
            until("it runs", lambda: task.status().state == "running")
            frozen.send_signal(signal.SIGSTOP)
            with tenure_broker.worker(["frozen"], lambda context: f"attempt {context.attempt}"):
                assert task.result(timeout=LONG) == b"attempt 2"
            frozen.send_signal(signal.SIGCONT)
            assert frozen.stdout is not None
            assert frozen.stdout.readline() == "fenced 1 stop\n"
            assert client.result(task.id) == b"attempt 2"
    finally:
        frozen.send_signal(signal.SIGCONT)
        frozen.terminate()
        assert frozen.wait(LONG) == 0
        assert frozen.stdout is not None
        frozen.stdout.close()


STEPS = """
    import os, sys, time, tenure
    def work(context):
        with open(sys.argv[2], "a", buffering=1) as steps:
            for _ in range(int(sys.argv[3])):
                steps.write(f"{context.attempt} {os.getpid()}\\n")
                time.sleep(0.001)
        return str(context.attempt)
    settings = {"heartbeat": 0.2, "lost_after": 1.0, "lease": 2.0, "die_with_lease": True, "tasks_die": True}
    tenure.Worker(work, queues=["steps"], address=sys.argv[1], **settings).run()
"""


def start_steps(address: str, path: Path, steps: int) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", textwrap.dedent(STEPS), address, str(path), str(steps)])


class Tunnel:
    """Passes bytes on to the broker, as an SSH tunnel or a proxy does, until it ends alone."""

    def __init__(self, target: str) -> None:
        host, port = target.rsplit(":", 1)
        self._target = (host, int(port))
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self._ends: list[socket.socket] = [self._listener]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                here, _ = self._listener.accept()
                there = socket.create_connection(self._target)
                self._ends += [here, there]
                for ends in ((here, there), (there, here)):
                    threading.Thread(target=self._pass_on, args=ends, daemon=True).start()

    def _pass_on(self, source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                target.sendall(data)

    def end(self) -> None:
        """Closes everything; nothing listens there any more."""
        for one in self._ends:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()


def test_a_worker_whose_tunnel_ends_makes_no_step_after_its_lease(tenure_broker: Broker, tmp_path: Path) -> None:
    """The broker lives: a refused connection proves nothing, and a closed one does not mean that the tasks are dead."""
    path = tmp_path / "steps"
    path.touch()
    tunnel = Tunnel(tenure_broker.address)
    first = start_steps(tunnel.address, path, 1_000_000)
    second: Optional[subprocess.Popen[bytes]] = None
    try:
        with tenure_broker.client() as client:
            task = client.submit("steps", b"", on_lost="requeue")
            until("it makes steps", lambda: path.stat().st_size > 100)
            until("it runs", lambda: task.status().state == "running")
            second = start_steps(tenure_broker.address, path, 1_000)
            until("both workers are there", lambda: sum(one.presence == "live" for one in client.workers()) == 2)
            tunnel.end()
            assert task.result(timeout=LONG) == b"2"
            assert first.wait(LONG) == -signal.SIGKILL
    finally:
        tunnel.end()
        for worker in (first, second):
            if worker is not None:
                worker.kill()
                worker.wait(LONG)
    attempts = [int(line.split()[0]) for line in path.read_text().splitlines()]
    assert attempts == sorted(attempts), "the first attempt made a step after the second had begun"
    assert attempts.count(2) == 1_000


@pytest.mark.parametrize("thaw_after", [None, 1.7, 1.9, 2.0, 2.5])
def test_a_worker_that_dies_with_its_lease_makes_no_step_after_it(
    tenure_broker: Broker, tmp_path: Path, thaw_after: Optional[float]
) -> None:
    """It is stopped in the middle of a step, and thawed around the moment at which another worker gets the task."""
    path = tmp_path / "steps"
    path.touch()
    frozen = start_steps(tenure_broker.address, path, 1_000_000)
    other: Optional[subprocess.Popen[bytes]] = None
    try:
        with tenure_broker.client() as client:
            task = client.submit("steps", b"", on_lost="requeue")
            until("it makes steps", lambda: path.stat().st_size > 100)
            until("it runs", lambda: task.status().state == "running")
            other = start_steps(tenure_broker.address, path, 1_000)
            until("both workers are there", lambda: sum(one.presence == "live" for one in client.workers()) == 2)
            frozen.send_signal(signal.SIGSTOP)
            if thaw_after is not None:
                time.sleep(thaw_after)
                frozen.send_signal(signal.SIGCONT)
            if thaw_after is None or thaw_after >= 2.0:
                # The kernel kills even a process that is stopped.
                assert frozen.wait(LONG) == -signal.SIGKILL
            else:
                # It may have been in time; then it dies another way.
                time.sleep(0.5)
                frozen.kill()
            assert task.result(timeout=LONG) == b"2"
    finally:
        for worker in (frozen, other):
            if worker is not None:
                worker.kill()
                worker.wait(LONG)
    attempts = [int(line.split()[0]) for line in path.read_text().splitlines()]
    assert attempts == sorted(attempts), "the first attempt made a step after the second had begun"
    assert attempts.count(2) == 1_000


def test_a_worker_that_dies_with_its_lease_lives_while_no_broker_runs(tenure_broker: Broker, tmp_path: Path) -> None:
    path = tmp_path / "steps"
    path.touch()
    worker = start_steps(tenure_broker.address, path, 6_000)
    try:
        with tenure_broker.client(connect_timeout=LONG) as client:
            task = client.submit("steps", b"", on_lost="fail")
            until("it runs", lambda: task.status().state == "running")
            tenure_broker.kill()
            # Longer than the lease: no worker can have the task meanwhile.
            time.sleep(4.0)
            assert worker.poll() is None
            tenure_broker.start()
            assert task.result(timeout=LONG) == b"1"
    finally:
        worker.kill()
        worker.wait(LONG)


def test_a_worker_that_dies_with_its_lease_lives_on_without_tasks(tenure_broker: Broker, tmp_path: Path) -> None:
    path = tmp_path / "steps"
    path.touch()
    worker = start_steps(tenure_broker.address, path, 10)
    try:
        with tenure_broker.client() as client:
            assert client.submit("steps", b"").result(timeout=LONG) == b"1"
            worker.send_signal(signal.SIGSTOP)
            time.sleep(3.0)
            worker.send_signal(signal.SIGCONT)
            assert client.submit("steps", b"").result(timeout=LONG) == b"1"
    finally:
        worker.terminate()
        assert worker.wait(LONG) == 0


def test_a_worker_and_a_client_live_through_kills_of_the_broker(tenure_broker: Broker) -> None:
    running = threading.Event()
    go_on = threading.Event()

    def handler(context: tenure.Context) -> str:
        running.set()
        assert go_on.wait(LONG)
        return f"{context.body.decode()} in attempt {context.attempt}"

    with tenure_broker.client() as client, tenure_broker.worker(["long"], handler) as worker:
        task = client.submit("long", "film")
        future = task.future()
        assert running.wait(LONG)
        until("the broker knows that it runs", lambda: task.status().state == "running")
        for _ in range(2):
            tenure_broker.restart()
            # The client is back by itself, and so is the worker, with its task.
            assert task.status().state in ("running", "assigned")
            until("the worker is back", lambda: worker.is_connected)
        go_on.set()
        assert task.result(timeout=LONG) == b"film in attempt 1"
        assert future.result(LONG) == b"film in attempt 1"
        assert worker.stats["reconnects"] >= 2


def test_named_submissions_go_through_while_the_broker_is_killed_again_and_again(tenure_broker: Broker) -> None:
    def kill() -> None:
        for _ in range(3):
            time.sleep(0.2)
            tenure_broker.restart()

    killer = threading.Thread(target=kill)
    ids: list[str] = []
    with tenure_broker.client(connect_timeout=LONG) as client:
        killer.start()
        while killer.is_alive() or len(ids) < 50:
            ids.append(client.submit("named", b"", name=f"n{len(ids)}").id)
        killer.join()
        assert len(set(ids)) == len(ids) == client.counts().by_state.ready


def test_listeners_and_ears_are_there_again_after_a_restart(tenure_broker: Broker) -> None:
    with tenure_broker.client() as client, client.listen(["me"]) as calls, client.receive_broadcasts() as heard:

        def answer() -> None:
            for call in calls:
                call.answer(b"yes")

        threading.Thread(target=answer, daemon=True).start()
        tenure_broker.restart()
        until("the address is there", lambda: _calls(client))
        client.broadcast("news", subject="s")
        said = heard.next(LONG)
        assert isinstance(said, tenure.Broadcast) and said.body == b"news"


def _calls(client: tenure.SyncClient) -> bool:
    try:
        return client.call("me", b"", timeout=5) == b"yes"
    except tenure.TenureError:
        return False


def _in_child(address: str, client: tenure.SyncClient, answers: multiprocessing.SimpleQueue[object]) -> None:
    # The parent's client works, over a connection of its own.
    answers.put(client.identity())
    answers.put(client.submit("forked", b"child").accepted is not None)


@pytest.mark.parametrize("round", range(3))
def test_a_forked_child_has_a_connection_of_its_own(tenure_broker: Broker, round: int) -> None:
    context = multiprocessing.get_context("fork")
    with tenure_broker.client() as client, client.watch(queue="forked") as watch:
        mine = client.identity()
        stop = threading.Event()

        # A fork in the middle of requests finds locks that are taken.
        def busy() -> None:
            while not stop.is_set():
                client.ping()

        threads = [threading.Thread(target=busy) for _ in range(4)]
        for thread in threads:
            thread.start()
        answers: multiprocessing.SimpleQueue[object] = context.SimpleQueue()
        children = [context.Process(target=_in_child, args=(tenure_broker.address, client, answers)) for _ in range(4)]
        for child in children:
            child.start()
        for child in children:
            child.join(LONG)
            assert child.exitcode == 0
        stop.set()
        for thread in threads:
            thread.join(LONG)
        told = [answers.get() for _ in range(8)]
        assert told.count(True) == 4 and mine not in told
        assert client.identity() == mine
        seen = [watch.next(LONG) for _ in range(4)]
        assert all(isinstance(event, tenure.Event) and event.kind == "submitted" for event in seen)


def test_a_forked_child_closes_the_connections_of_its_parent(tenure_broker: Broker) -> None:
    """The broker notices a killed parent at once, although its child lives."""
    code = """
        import os, sys, time, tenure
        settings = {"lease": 600, "lost_after": 300, "heartbeat": 60}
        worker = tenure.Worker(lambda context: None, queues=["q"], address=sys.argv[1], **settings)
        worker.start()
        child = os.fork()
        if child == 0:
            time.sleep(600)
        print(child, flush=True)
        time.sleep(600)
    """
    command = [sys.executable, "-c", textwrap.dedent(code), tenure_broker.address]
    parent = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    child = int(parent.stdout.readline())
    try:
        with tenure_broker.client() as client:
            assert [one.presence for one in client.workers()] == ["live"]
            parent.kill()
            until("the broker has noticed", lambda: [one.presence for one in client.workers()] != ["live"])
    finally:
        os.kill(child, signal.SIGKILL)
        parent.wait(LONG)
        parent.stdout.close()


def test_a_stream_of_the_parent_says_so_in_the_child(tenure_broker: Broker) -> None:
    with tenure_broker.client() as client, client.watch() as watch:
        child = os.fork()
        if child == 0:
            try:
                watch.next(1.0)
            except tenure.Forked:
                os._exit(7)
            os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7


def test_a_forked_child_can_run_an_event_loop(tenure_broker: Broker) -> None:
    async def ping() -> int:
        async with tenure_broker.async_client() as client:
            return await client.ping()

    assert asyncio.run(ping()) > 0
    child = os.fork()
    if child == 0:
        os._exit(0 if asyncio.run(ping()) > 0 else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@pytest.mark.parametrize(
    "doing",
    [
        "client.ping()",
        "threading.Thread(target=lambda: client.submit('q').result(), daemon=True).start()",
        "threading.Thread(target=lambda: list(client.watch()), daemon=True).start()",
        "threading.Thread(target=lambda: list(client.subscribe(['t'])), daemon=True).start()",
        "client.submit('q').future()",
        "tenure.Worker(lambda context: time.sleep(600), queues=['q'], address=sys.argv[1]).start(); client.submit('q')",
        "tenure.Worker(forever, queues=['q'], address=sys.argv[1]).start(); client.submit('q')",
        "asyncio.run(leave_open())",
    ],
)
def test_the_interpreter_exits_whatever_is_under_way(shared_broker: Broker, doing: str) -> None:
    code = f"""
        import asyncio, sys, threading, time, tenure
        async def forever(context):
            await asyncio.sleep(600)
        async def leave_open():
            client = tenure.Client(sys.argv[1])
            asyncio.ensure_future((await client.submit("q")).result())
            await client.subscribe(["t"])
        client = tenure.SyncClient(sys.argv[1])
        {doing}
        time.sleep(0.3)
        print("end")
    """
    ended = run_python(code, shared_broker.address, timeout=30)
    assert (ended.returncode, ended.stdout) == (0, "end\n"), ended.stderr


def test_a_broker_that_is_gone_does_not_keep_the_interpreter(tenure_broker: Broker) -> None:
    code = """
        import os, signal, sys, threading, tenure
        client = tenure.SyncClient(sys.argv[1])
        client.ping()
        os.kill(int(sys.argv[2]), signal.SIGKILL)
        threading.Thread(target=client.ping, daemon=True).start()
        print("end")
    """
    ended = run_python(code, tenure_broker.address, str(tenure_broker.pid), timeout=30)
    assert (ended.returncode, ended.stdout) == (0, "end\n"), ended.stderr


def test_ctrl_c_ends_a_wait(shared_broker: Broker) -> None:
    code = """
        import os, signal, sys, threading, tenure
        # A process that was started in the background may ignore it.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        client = tenure.SyncClient(sys.argv[1])
        task = client.submit("never")
        threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
        try:
            task.result()
        except KeyboardInterrupt:
            print("interrupted")
    """
    ended = run_python(code, shared_broker.address)
    assert ended.stdout == "interrupted\n", ended.stderr


def test_a_forked_worker_is_not_taken_for_its_parent(tenure_broker: Broker) -> None:
    """Whether two workers of one name are the same is decided by a number that each draws at random."""

    def worker(id: str) -> tenure.Worker:
        settings = {"queues": ["twins"], "address": tenure_broker.address, "id": id}
        return tenure.Worker(lambda context: None, **settings)  # type: ignore[arg-type]

    with worker("before"):
        pass
    told, tell = os.pipe()
    done, finish = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(finish)
        with worker("twin"):
            os.write(tell, b"started")
            os.read(done, 1)
        os._exit(0)
    try:
        assert os.read(told, 7) == b"started"
        with pytest.raises(tenure.NameTaken):
            worker("twin").start()
    finally:
        os.close(finish)
        os.waitpid(child, 0)
        for end in (told, tell, done):
            os.close(end)
