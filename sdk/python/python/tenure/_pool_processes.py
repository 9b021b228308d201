"""Handlers in processes: a task that is cancelled or over its time is killed, and a crash is its own alone."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import signal
import socket
import subprocess
import sys
import threading
from collections import OrderedDict
from typing import Any, Callable, Optional

from . import _native
from ._frames import Frames
from ._load import load_app
from .errors import BadSetting, Closed, TenureError
from .worker import Pool

log = logging.getLogger("tenure.worker")

#: What a task that was killed is reported with.
EXIT_KILLED = 137
#: How often a process may die before it is ready until the worker gives up.
BROKEN_STARTS_MAX = 3

#: How many tasks are taken at once.
_BATCH = 256

Key = tuple[str, int]


class ProcessPool(Pool):
    """Processes that import ``module:app`` themselves. Each runs one task at a time; more wait in it if there are more
    slots than processes, which saves a round trip for short tasks. For tasks that weigh no slot further processes start
    when they are needed, so that such a task does not wait behind another.
    """

    def __init__(
        self,
        target: str,
        slots: int,
        processes: Optional[int] = None,
        kill_after: float = 5.0,
        settings: Optional[dict[str, str]] = None,
        light_slots: int = 0,
        log_level: Optional[str] = None,
    ) -> None:
        """``settings`` are those of the app that differ from what its module says. With ``log_level`` the processes log
        to stderr.
        """
        self._log_level = log_level or ""
        self._target = target
        self._settings = settings or {}
        self._children_max = min(processes or slots, slots)
        if self._children_max < 1:
            raise BadSetting(f"processes is {processes}: at least one is needed")
        # Fewer processes than slots are the wish of the user: then tasks without weight wait in them, too.
        self._light_max = light_slots if self._children_max == slots else 0
        self._kill_after = kill_after
        self._lock = threading.Lock()
        self._children: list[ChildProcess] = []
        # Their tasks wait for others, or have waited. Others have their places; they end with their tasks.
        self._waiting: list[ChildProcess] = []
        self._ending = False
        self._broken_starts = 0

    def prepare(self) -> None:
        load_app(self._target)
        self._children = [self._start_child() for _ in range(self._children_max)]
        for child in self._children:
            child.wait_ready()

    def start(self, worker: _native.Worker) -> None:
        self._worker = worker
        for work in (self._dispatch, self._interrupt):
            threading.Thread(target=work, name=f"tenure-{work.__name__}", daemon=True).start()

    def end(self) -> None:
        with self._lock:
            self._ending = True
            children, self._children, self._waiting = [*self._children, *self._waiting], [], []
        for child in children:
            child.close()

    def _start_child(self) -> ChildProcess:
        return ChildProcess([self._target, json.dumps(self._settings), self._log_level], self._died, self._waits)

    def _dispatch(self) -> None:
        try:
            while (tasks := self._worker.take_many(_BATCH, None)) is not None:
                self._give(tasks)
        except Closed:
            pass

    def _give(self, tasks: list[_native.Task]) -> None:
        """Gives each task to the process that has the fewest, and to each process all of its own in one frame."""
        while tasks:
            with self._lock:
                children = list(self._children)
            if not children:
                for task in tasks:
                    task.give_back("this worker has no process that could run it")
                return
            given: list[list[_native.Task]] = [[] for _ in children]
            loads = [len(child.held) for child in children]
            for task in tasks:
                if min(loads) > 0 and (child := self._start_light()) is not None:
                    children.append(child)
                    given.append([])
                    loads.append(0)
                idlest = loads.index(min(loads))
                loads[idlest] += 1
                given[idlest].append(task)
            # What a process that has just died does not take goes to the others.
            tasks = [task for child, its in zip(children, given) if its and not child.give(its) for task in its]

    def _start_light(self) -> Optional[ChildProcess]:
        """A further process, when there are more tasks than slots."""
        with self._lock:
            if self._ending or len(self._children) >= self._children_max + self._light_max:
                return None
            child = self._start_child()
            self._children.append(child)
            return child

    def _interrupt(self) -> None:
        try:
            while (told := self._worker.next_interrupt(None)) is not None:
                task, attempt, kind, reason = told
                with self._lock:
                    children = [*self._children, *self._waiting]
                for child in children:
                    child.interrupt((task, attempt), kind, reason, self._kill_after)
        except Closed:
            pass

    def _waits(self, child: ChildProcess, behind: list[_native.Task]) -> None:
        """The task of a process waits for others without its slot: another process takes its place."""
        with self._lock:
            if not self._ending and child in self._children:
                self._children[self._children.index(child)] = self._start_child()
                self._waiting.append(child)
        self._give(behind)

    def _died(self, child: ChildProcess) -> None:
        """A process is gone: another takes its place."""
        with self._lock:
            if child in self._waiting:
                self._waiting.remove(child)
            if self._ending or child not in self._children:
                return
            self._broken_starts = 0 if child.was_ready else self._broken_starts + 1
            if self._broken_starts < BROKEN_STARTS_MAX:
                self._children[self._children.index(child)] = self._start_child()
                return
            self._children.remove(child)
            if self._children:
                return
        log.error("no process of the worker can start: the worker leaves")
        self._worker.stop()


class ChildProcess:
    """One process, and the tasks that were given to it. The first of them runs."""

    def __init__(
        self,
        arguments: list[str],
        on_death: Callable[[ChildProcess], None],
        on_wait: Callable[[ChildProcess, list[_native.Task]], None],
    ) -> None:
        ours, theirs = socket.socketpair()
        self.held: OrderedDict[Key, _native.Task] = OrderedDict()
        self._lock = threading.Lock()
        self._dead = False
        self._killed_for: Optional[tuple[Key, str]] = None
        self._timers: dict[Key, threading.Timer] = {}
        self._on_death = on_death
        self._on_wait = on_wait
        self._has_waited = False
        self._frames = Frames(ours)
        self._ready = threading.Event()
        self.was_ready = False
        self._broken: Optional[str] = None
        command = [sys.executable, "-m", "tenure._child", str(theirs.fileno()), *arguments]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
        self._process = subprocess.Popen(command, pass_fds=[theirs.fileno()], env=environment)
        theirs.close()
        threading.Thread(target=self._hear, name="tenure-child", daemon=True).start()

    def wait_ready(self) -> None:
        """Returns when the process has imported the app. Raises what kept it from that."""
        self._ready.wait()
        if self._broken is not None:
            raise BadSetting(f"a process of the worker could not start: {self._broken}")

    def give(self, tasks: list[_native.Task]) -> bool:
        """Gives the process some tasks. Returns whether it still takes any."""
        described = [_describe(task) for task in tasks]
        with self._lock:
            if self._dead:
                return False
            for task, told in zip(tasks, described):
                self.held[(told["id"], told["attempt"])] = task
        # If it died, the thread that hears it says what becomes of the tasks.
        with contextlib.suppress(OSError):
            self._frames.send("tasks", described)
        return True

    def interrupt(self, key: Key, kind: str, reason: Optional[str], kill_after: float) -> None:
        """Tells the process, and kills it if the task does not wind down in time."""
        with self._lock:
            if key not in self.held or self._dead:
                return
            if kind in ("cancel", "stop"):
                self._arm(key, kind, kill_after)
        with contextlib.suppress(OSError):
            self._frames.send("interrupt", key[0], key[1], kind, reason)

    def _arm(self, key: Key, kind: str, kill_after: float) -> None:
        timer = threading.Timer(kill_after, self._kill, (key, kind, kill_after))
        timer.daemon = True
        self._timers[key] = timer
        timer.start()

    def close(self) -> None:
        """Ends the process."""
        with self._lock:
            self._dead = True
        self._frames.close()
        try:
            self._process.wait(1.0)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _kill(self, key: Key, kind: str, kill_after: float) -> None:
        with self._lock:
            if self._dead or key not in self.held:
                return
            if next(iter(self.held)) != key:
                # It waits behind another, which must not die for it. The process passes it over when its turn comes.
                self._arm(key, kind, kill_after)
                return
            self._killed_for = (key, kind)
            log.warning("a task did not wind down and is killed", extra={"task": key[0], "attempt": key[1]})
            self._process.kill()

    def _hear(self) -> None:
        try:
            while True:
                kind, *told = self._frames.receive()
                if kind == "ready":
                    self.was_ready = True
                    self._ready.set()
                elif kind == "broken":
                    self._broken = told[0]
                else:
                    self._said(kind, (told[0], told[1]), told[2:])
        except (EOFError, OSError):
            self._gone()

    def _said(self, kind: str, key: Key, told: list[Any]) -> None:
        with self._lock:
            task = self.held.get(key)
            if kind == "end":
                self.held.pop(key, None)
                timer = self._timers.pop(key, None)
                if timer is not None:
                    timer.cancel()
            is_left = self._has_waited and not self.held
        if task is None:
            return
        if kind == "end":
            getattr(task, told[0])(*told[1:])
            if is_left:
                # Another process has its place.
                self._frames.close()
        elif kind == "wait":
            self._wait(key, task, told[0])
        elif kind == "log":
            task.append_log(*told)
        elif kind == "after":
            self._frames.send("after", *key, task.after())
        elif kind == "progress":
            task.progress(*told)
        elif kind == "terms":
            self._frames.send("terms", *key, task.terms())
        elif kind == "checkpoint":
            refused = None
            try:
                task.save_checkpoint(told[0])
            except TenureError as error:
                refused = str(error)
            self._frames.send("checkpoint", *key, refused)

    def _wait(self, key: Key, task: _native.Task, tasks: Optional[list[str]]) -> None:
        with self._lock:
            self._has_waited = True
            behind = [(other, self.held.pop(other)) for other in list(self.held) if other != key]
            for other, _ in behind:
                timer = self._timers.pop(other, None)
                if timer is not None:
                    timer.cancel()
        for other, _ in behind:
            self._frames.send("forget", *other)
        self._on_wait(self, [task for _, task in behind])
        threading.Thread(target=self._wait_for, args=(key, task, tasks), name="tenure-wait", daemon=True).start()

    def _wait_for(self, key: Key, task: _native.Task, tasks: Optional[list[str]]) -> None:
        ends, refused = None, None
        try:
            ends = task.wait_for(tasks)
        except TenureError as error:
            refused = (type(error).__name__, str(error))
        with contextlib.suppress(OSError):
            self._frames.send("waited", *key, ends, task.interrupt(), refused)

    def _gone(self) -> None:
        status = self._process.wait()
        with self._lock:
            closed, self._dead = self._dead, True
            held, killed_for = list(self.held.items()), self._killed_for
            self.held.clear()
        if not self.was_ready:
            self._broken = self._broken or f"it {_cause(status)}"
            self._ready.set()
            if not closed:
                log.error("a process of the worker could not start: %s", self._broken)
        for place, (key, task) in enumerate(held):
            if place > 0 or closed:
                task.give_back("the process that it waited in is gone")
            elif killed_for is not None and killed_for[0] == key:
                if killed_for[1] == "cancel":
                    task.confirm_cancelled(b"")
                else:
                    task.fail(EXIT_KILLED, "the task was over its limit and was killed", b"", False, False)
            else:
                task.fail(_exit_code(status), f"the process of the task {_cause(status)}", b"", False, True)
        if not closed:
            self._on_death(self)


def _describe(task: _native.Task) -> dict[str, Any]:
    return {
        "id": task.id,
        "attempt": task.attempt,
        "body": task.body,
        "queue": task.queue,
        "name": task.name,
        "parent": task.parent,
        "array": task.array,
        "index": task.index,
        "traceparent": task.traceparent,
        "tracestate": task.tracestate,
        "cpus": task.cpus,
        "gpus": task.gpus,
        "interrupt": task.interrupt(),
        "priority": task.priority,
        "submitter": task.submitter,
        "submitted_at": task.submitted_at,
        "crashes": task.crashes,
        "failures": task.failures,
        "checkpoint": task.checkpoint,
    }


def _exit_code(status: int) -> int:
    return 128 - status if status < 0 else (status or 1)


def _cause(status: int) -> str:
    if status >= 0:
        return f"ended with exit code {status}"
    try:
        return f"died of {signal.Signals(-status).name}"
    except ValueError:
        return f"died of signal {-status}"
