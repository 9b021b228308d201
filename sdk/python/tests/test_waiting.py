"""A handler that waits for other tasks takes no slot meanwhile."""

from __future__ import annotations

import pytest
import tenure
from conftest import LONG, until
from tenure.testing import Broker


def test_three_nested_workflows_finish_on_one_worker_with_two_slots(shared_broker: Broker) -> None:
    with tenure.SyncClient(shared_broker.address) as client:

        def nested(context: tenure.Context) -> str:
            depth = int(context.body)
            if depth == 0:
                return "leaf"
            child = client.submit("nested", str(depth - 1), parent=context.id)
            ends = context.wait_for(child.id)
            assert ends == [tenure.TaskEnd(child.id, "completed")]
            return f"{depth} over {child.result(timeout=LONG).decode()}"

        with tenure.Worker(nested, queues=["nested"], address=shared_broker.address, slots=2):
            workflows = [client.submit("nested", "4") for _ in range(3)]
            for workflow in workflows:
                assert workflow.result(timeout=LONG) == b"4 over 3 over 2 over 1 over leaf"
                assert client.show(workflow.id).attempt == 1


def test_handlers_that_await_wait_for_their_children(shared_broker: Broker) -> None:
    with tenure.SyncClient(shared_broker.address) as client:

        async def family(context: tenure.Context) -> str:
            if context.parent is not None:
                if context.body == b"bad":
                    raise tenure.Fail("no", final=True)
                return "child"
            for body in ("good", "bad"):
                client.submit("family", body, parent=context.id)
            ends = await context.wait_for_children_async()
            return ",".join(sorted(end.state for end in ends))

        with tenure.Worker(family, queues=["family"], address=shared_broker.address, slots=1):
            assert client.submit("family").result(timeout=LONG) == b"completed,failed"


def test_a_cancelled_handler_stops_waiting(shared_broker: Broker) -> None:
    with tenure.SyncClient(shared_broker.address) as client:
        other = client.submit("stops", hold=True)

        def waits(context: tenure.Context) -> None:
            context.wait_for(other.id)

        with tenure.Worker(waits, queues=["stops"], address=shared_broker.address, slots=1):
            task = client.submit("stops")
            until("it waits", lambda: client.show(task.id).state == "suspended")
            assert client.show(task.id).open == 1
            task.cancel("enough")
            with pytest.raises(tenure.TaskCancelled):
                task.result(timeout=LONG)
