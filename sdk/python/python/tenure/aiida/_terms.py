"""The submission of a process: its queue, weight, priority, tags and name."""

from __future__ import annotations

import re
from collections.abc import Hashable
from typing import Any, Optional

from .._fields import FieldLogger
from ._config import BrokerConfig

log = FieldLogger("tenure.aiida")

#: The queue of a profile. Calculations take the daemon's slots, workchains weigh none.
PROCESSES = "aiida"
#: Where version 0.2 put workchains. Those that it submitted may still wait there.
WORKCHAINS_OF_0_2 = "aiida.workchains"
#: Callers are followed this far.
DEPTH_MAX = 100
#: A process label is cut to this length in the task's name.
LABEL_CHARS_MAX = 100
#: How much of the uuid of a process is in the task's name.
UUID_CHARS = 8
#: What makes the name of a further task of a process differ.
_SUFFIX = re.compile(r"(-[0-9a-f]{8})?(~[0-9]+)?$")


def pk_of(body: Any) -> Optional[int]:
    """The process that a task continues."""
    if isinstance(body, dict) and body.get("task") == "continue":
        arguments = body.get("args") or {}
        pid = arguments.get("pid") if isinstance(arguments, dict) else None
        return pid if isinstance(pid, int) else None
    return None


def key_of(body: Any) -> Optional[Hashable]:
    """Two tasks that continue the same process are the same work."""
    pk = pk_of(body)
    return None if pk is None else (pk, body.get("uuid"))


def held(body: Any) -> Any:
    """The body with which the broker keeps the task of a process: until the process has ended, whether or not the
    sender waits for that, and with the uuid, because a database may give the pk of a deleted process to another one.
    """
    from aiida.orm import load_node

    pk = pk_of(body)
    if pk is None:
        return body
    kept = body
    if body["args"].get("nowait"):
        kept = {**body, "args": {**body["args"], "nowait": False}}
    try:
        return {**kept, "uuid": load_node(pk).uuid}
    except Exception as error:
        log.warning("a process could not be looked up", extra={"pk": pk, "error": str(error)})
        return kept


def terms_of(body: Any, config: BrokerConfig) -> dict[str, Any]:
    """What the submission of a task says. A process that cannot be looked up is submitted all the same."""
    pk = pk_of(body)
    if pk is None:
        return {}
    try:
        return _terms_of_process(pk, config)
    except Exception as error:
        log.warning("a process could not be looked up", extra={"pk": pk, "error": str(error)})
        return {"name": f"process {pk}"}


def _terms_of_process(pk: int, config: BrokerConfig) -> dict[str, Any]:
    from aiida.orm import CalcJobNode, WorkflowNode, load_node

    node = load_node(pk)
    is_workchain = isinstance(node, WorkflowNode)
    label = "".join(one for one in (node.process_label or type(node).__name__) if one.isprintable())
    terms: dict[str, Any] = {
        "queue": PROCESSES,
        # A workchain waits for its children most of the time. If it occupied a slot, they might get none.
        "slots": 0 if is_workchain else 1,
        "name": f"{pk} {label[:LABEL_CHARS_MAX]}-{node.uuid[:UUID_CHARS]}",
        # A second task would let a second worker run the same process.
        "exclusive": True,
        # Children first: their parents wait for them.
        "priority": _depth(node),
        "on_lost": config.on_lost_workchain if is_workchain else config.on_lost_calculation,
    }
    if isinstance(node, CalcJobNode) and node.computer is not None:
        terms["tags"] = [computer_tag(node.computer.label)]
    return terms


def label_of(name: Optional[str]) -> str:
    """The label of a process from the name of its task. In version 0.2 the digits were random."""
    return _SUFFIX.sub("", (name or "").partition(" ")[2])


def computer_tag(label: str) -> str:
    """The tag of all calculations on a computer."""
    return f"computer:{label}"


def _depth(node: Any) -> int:
    depth = 0
    while depth < DEPTH_MAX:
        caller = node.caller
        if caller is None:
            break
        node, depth = caller, depth + 1
    return depth
