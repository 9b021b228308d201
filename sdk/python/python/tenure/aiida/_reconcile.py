"""Compares AiiDA's active processes with the tasks of the broker."""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any, Optional

import kiwipy

from ..errors import UnknownTask
from ..kiwi._send import names_of
from ..records import TaskInfo
from ._config import REMOVED
from ._terms import pk_of, terms_of

if TYPE_CHECKING:
    from ..kiwi import Communicator
    from .broker import ListedTask, TenureBroker

log = logging.getLogger("tenure.aiida")

#: A process that was changed more recently may be on its way to the broker.
YOUNG = timedelta(seconds=30)


@dataclass
class Difference:
    """What does not fit together."""

    #: Active processes without a task that no worker runs: none will ever continue them.
    lost: list[int] = field(default_factory=list)
    #: Active processes without a task that a program runs by itself (``run``), or that are too young to tell.
    elsewhere: list[int] = field(default_factory=list)
    #: Tasks of processes that have ended or were deleted.
    useless: list[ListedTask] = field(default_factory=list)
    #: Tasks of processes that have another task.
    duplicate: list[ListedTask] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.lost or self.useless or self.duplicate)

    def __str__(self) -> str:
        if not self:
            return "the database and the broker agree"
        parts = []
        if self.lost:
            parts.append(f"{len(self.lost)} active processes have no task: {', '.join(map(str, self.lost))}")
        if self.useless:
            parts.append(f"{len(self.useless)} tasks belong to no active process: {_pks(self.useless)}")
        if self.duplicate:
            parts.append(f"{len(self.duplicate)} tasks are duplicates: {_pks(self.duplicate)}")
        return "; ".join(parts)


def compare(broker: TenureBroker, tasks: list[ListedTask], ask: bool = True) -> Difference:
    """Compares. With ``ask`` every process without a task is asked whether some program runs it."""
    from aiida.orm import ProcessNode, QueryBuilder

    query = QueryBuilder().append(
        ProcessNode,
        filters={"attributes.process_state": {"in": ["created", "waiting", "running"]}},
        project=["id", "uuid", "mtime"],
    )
    active: dict[int, Any] = {pk: (uuid, changed) for pk, uuid, changed in query.all()}
    difference = Difference()
    counts: Counter[int] = Counter()
    # What runs is kept, of what waits the oldest.
    for task in sorted(tasks, key=lambda task: task.info.state not in ("running", "assigned")):
        pk = pk_of(task.body)
        if pk is None:
            continue
        # Tasks of version 0.2 do not say the uuid.
        if pk not in active or task.body.get("uuid") not in (None, active[pk][0]):
            difference.useless.append(task)
            continue
        counts[pk] += 1
        if counts[pk] > 1:
            difference.duplicate.append(task)
    now = datetime.now(timezone.utc)
    for pk, (_, changed) in sorted(active.items()):
        if pk in counts:
            continue
        if now - changed < YOUNG or (ask and _is_running_elsewhere(broker, pk)):
            difference.elsewhere.append(pk)
        else:
            difference.lost.append(pk)
    return difference


def mend(broker: TenureBroker, difference: Difference) -> None:
    """Makes a task for every lost process, and removes tasks that are of no use."""
    for task in [*difference.useless, *difference.duplicate]:
        task.remove()
    for pk in difference.lost:
        revive(broker, pk)


def revive(broker: TenureBroker, pk: int) -> None:
    """Makes a task that continues a process."""
    body = {"task": "continue", "args": {"pid": pk, "nowait": False, "tag": None}}
    broker.get_communicator().task_send(body, no_reply=True)


def report(broker: TenureBroker) -> Optional[Difference]:
    """Says what does not fit together, and removes waiting tasks of deleted processes: the database may have given
    their pks to others. Never raises: a worker starts all the same.
    """
    try:
        # The tasks first: a process is in the database before its task is sent.
        tasks = list(broker.iterate_tasks())
        deleted = [task for task in _of_deleted(tasks) if task.info.state not in ("running", "assigned")]
        for task in deleted:
            log.warning("task %s of the deleted process %s is removed", task.info.id, pk_of(task.body))
            task.remove()
        difference = compare(broker, [task for task in tasks if task not in deleted])
    except Exception:
        log.exception("the database and the broker could not be compared")
        return None
    if difference:
        log.warning("%s; `tenure-aiida reconcile --fix` mends this", difference)
    return difference


def mend_later(broker: TenureBroker, communicator: Communicator, before: Optional[Difference]) -> None:
    """Makes tasks for processes that none will ever continue, on a thread, after a second look. In between, a program
    that runs one of them by itself has connected again, and one that was submitting it has sent its task.
    """
    suspects = {*before.lost, *before.elsewhere} if before is not None else set()
    if not suspects:
        return

    def look_again() -> None:
        time.sleep(YOUNG.total_seconds())
        if communicator.is_closed():
            return
        try:
            revive_lost(broker, suspects)
        except Exception:
            log.exception("processes without a task could not be revived; use `tenure-aiida reconcile --fix`")
        finally:
            _leave_database()

    threading.Thread(target=look_again, name="tenure-aiida-mend", daemon=True).start()


def revive_lost(broker: TenureBroker, suspects: set[int]) -> list[int]:
    """Makes tasks for those of some processes that are still without one. Not if a user has cancelled the last one, or
    it has failed. Returns their pks.
    """
    revived = []
    for pk in compare(broker, list(broker.iterate_tasks())).lost:
        if pk not in suspects:
            continue
        why_not = _ended_on_purpose(broker, pk)
        if why_not is not None:
            log.warning("process %s has no task, because %s; it is not revived", pk, why_not)
            continue
        log.warning("process %s has no task: it is revived", pk)
        revive(broker, pk)
        revived.append(pk)
    return revived


def _ended_on_purpose(broker: TenureBroker, pk: int) -> Optional[str]:
    """Why the last task of a process should stay the last one."""
    name = str(terms_of({"task": "continue", "args": {"pid": pk}}, broker.config)["name"])
    last: Optional[TaskInfo] = None
    with broker.client() as client:
        for numbered in names_of(name):
            try:
                last = client.find(numbered)
            except UnknownTask:
                break
    if last is None or last.state not in ("cancelled", "failed"):
        return None
    reason = (last.end.message if last.end is not None else None) or ""
    if last.state == "cancelled" and reason == REMOVED:
        return None
    return f"its last task {last.id} was {last.state}" + (f" ({reason})" if reason else "")


def _leave_database() -> None:
    """Closes the session that this thread has with the database."""
    from aiida.manage import get_manager

    get_manager().get_profile_storage().get_session().close()


def _of_deleted(tasks: list[ListedTask]) -> list[ListedTask]:
    from aiida.orm import ProcessNode, QueryBuilder

    told = {task.body["uuid"] for task in tasks if task.body.get("uuid")}
    query = QueryBuilder().append(ProcessNode, filters={"uuid": {"in": sorted(told)}}, project=["uuid"])
    gone = told.difference(query.all(flat=True)) if told else set()
    return [task for task in tasks if task.body.get("uuid") in gone]


def _pks(tasks: list[ListedTask]) -> str:
    return ", ".join(str(pk_of(task.body)) for task in tasks)


def _is_running_elsewhere(broker: TenureBroker, pk: int) -> bool:
    try:
        broker.get_communicator().rpc_send(pk, {"intent": "status"})
    except kiwipy.UnroutableError:
        return False
    return True
