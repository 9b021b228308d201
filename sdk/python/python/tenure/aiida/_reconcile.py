"""Compares AiiDA's active processes with the tasks of the broker."""

from __future__ import annotations

import logging
from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

import kiwipy

from ._terms import pk_of

if TYPE_CHECKING:
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


def report(broker: TenureBroker) -> None:
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
        return
    if difference:
        log.warning("%s; `tenure-aiida reconcile --fix` mends this", difference)


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
