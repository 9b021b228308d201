"""Sends tasks and waits for their results."""

from __future__ import annotations

import itertools
import threading
import uuid
from collections.abc import Iterator
from concurrent.futures import Future
from typing import Any, Callable, Optional

import kiwipy

from .._fields import FieldLogger
from ..errors import Closed, NameTaken, TenureError, UnknownTask
from ..records import Accepted, Ended, TaskInfo, read_json
from ..submission import Submission
from ._chain import End, Mirror
from ._link import Link, pack, unpack
from ._rpc import Rpc

log = FieldLogger("tenure.kiwi")

#: What a submission says beside its queue and body, from the body of a task. With ``exclusive`` its name belongs to one
#: active task at a time: while there is one, the task is not sent, and a sender that waits for a result gets a future
#: of ``False``, which is what a launcher of AiiDA, a coroutine, answers to a duplicate.
Terms = Callable[[Any], dict[str, Any]]
#: No number of lost workers is too many: AiiDA's processes go on from their checkpoints.
CRASH_BUDGET = 65_535
AGAIN_SECONDS = 1.0
ENDED = ("completed", "failed", "cancelled")


def names_of(name: str) -> Iterator[str]:
    """The names of an exclusive task, one after another: the broker keeps ended tasks with theirs for a while."""
    yield name
    for number in itertools.count(2):
        yield f"{name}~{number}"


class Sending:
    """The sending part of a communicator."""

    def __init__(self, link: Link, rpc: Rpc, terms: Terms) -> None:
        self._link = link
        self._rpc = rpc
        self._terms = terms
        self._waiting: dict[str, Mirror] = {}
        self._lock = threading.Lock()
        rpc.on_task_pending = self._pending

    def send(self, queue: str, body: Any, no_reply: bool) -> Optional[Future[Any]]:
        """Submits a task, and returns when it is on the broker's disk."""
        reply = None
        if not no_reply:
            self._rpc.open_own_address()
            reply = self._rpc.own_address
        task = str(uuid.uuid4())
        terms = {"queue": queue, "crash_budget": CRASH_BUDGET, "cancel_timeout": 0, **self._terms(body)}
        told = pack({"body": self._link.encode(body), "reply": reply})
        mirror = None
        if reply is not None:
            mirror = self._waiting[task] = Mirror()
        try:
            sent = self._submit(task, told, terms)
        except TenureError as error:
            self._waiting.pop(task, None)
            if isinstance(error, Closed):
                raise kiwipy.CommunicatorClosed() from error
            if error.transient:
                raise kiwipy.TimeoutError(f"the broker did not accept the task in time: {error}") from error
            raise kiwipy.DeliveryFailed(f"the broker did not accept the task: {error}") from error
        if mirror is None:
            return None
        if sent:
            self._wait(task, mirror)
        else:
            self._finish(task, mirror, 1, End("result", False))
        return mirror.root

    def _submit(self, task: str, body: bytes, terms: dict[str, Any]) -> bool:
        """Whether the task was sent: not if its name is exclusive and an active task has it."""
        name, exclusive = terms.pop("name", "task"), terms.pop("exclusive", False)
        # A submission that carries a name is repeated by the client if the connection breaks, and counts once.
        if not exclusive:
            self._link.client.submit(Submission(id=task, body=body, name=f"{name}-{task[:8]}", **terms).said())
            return True
        for numbered in names_of(name):
            holder, state = self._submit_named(Submission(id=task, body=body, name=numbered, **terms))
            if holder == task:
                return True
            if state not in ENDED:
                fields = {"task": holder, "task_name": numbered, "state": state}
                log.warning("the process has a task already: it is not sent again", extra=fields)
                return False
        raise AssertionError("a count does not end")

    def _submit_named(self, submission: Submission) -> tuple[str, str]:
        """The task that has the name now, and its state."""
        try:
            accepted = Accepted.of(self._link.client.submit(submission.said()))
            return accepted.id, accepted.state
        except NameTaken as error:
            holder = str(error.facts["task"])
        try:
            return holder, read_json(TaskInfo, self._link.client.show(holder)).state
        except UnknownTask:
            # It was forgotten in this moment.
            return holder, ENDED[0]

    def _wait(self, task: str, mirror: Mirror) -> None:
        def ended(told: Any, error: Optional[BaseException]) -> None:
            if isinstance(error, Closed) or self._link.closed:
                return
            if isinstance(error, TenureError) and error.code is not None:
                self._finish(task, mirror, 0, End("exception", kiwipy.DeliveryFailed(str(error))))
            elif told is None:
                self._link.dispatcher.later(AGAIN_SECONDS, lambda: self._wait(task, mirror))
            else:
                self._read(task, mirror, Ended.of(told))

        self._link.dispatcher.ask(lambda via: self._link.client.wait(task, None, via), ended)

    def _read(self, task: str, mirror: Mirror, ended: Ended) -> None:
        if ended.state == "cancelled":
            self._finish(task, mirror, 0, End("cancelled"))
            return
        depth, end = 0, End("exception", ended.message or f"the task has {ended.state}")
        if ended.result:
            try:
                told = unpack(ended.result)
                depth, end = told["depth"], self._link.decode_end(told["end"])
            except Exception as error:
                end = End("exception", f"the result cannot be read: {error}")
        self._finish(task, mirror, depth, end)

    def _finish(self, task: str, mirror: Mirror, depth: int, end: End) -> None:
        self._waiting.pop(task, None)
        self._link.dispatcher.call(mirror.finish, depth, end)

    def _pending(self, task: str, depth: int) -> None:
        mirror = self._waiting.get(task)
        if mirror is not None:
            mirror.advance(depth)
