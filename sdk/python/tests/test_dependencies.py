"""Tasks that wait for others, and the traces that they belong to."""

from __future__ import annotations

import pytest
import tenure
from conftest import LONG, until
from tenure.testing import Broker

TRACE = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


def test_a_task_runs_after_others_and_knows_their_results(shared_broker: Broker, client: tenure.SyncClient) -> None:
    def handler(context: tenure.Context) -> bytes:
        return b"+".join(sorted(client.result(one.task) for one in context.after)) or context.body

    first = client.submit("sums", b"1", name="first")
    client.submit("sums", b"2", name="second")
    array = client.submit_array("sums", bodies=["x", "y"])
    total = client.submit("sums", after=[first, "second"])
    last = client.submit("sums", after=[array, tenure.After(task=total.id, condition="ended")])
    info = total.status()
    assert info.state == "waiting"
    assert [(one.name, one.progress) for one in info.after] == [("first", "open"), ("second", "open")]
    with shared_broker.worker(["sums"], handler):
        assert total.result(LONG) == b"1+2"
        assert last.wait(LONG).completed or last.status().after


def test_a_broken_dependency_does_what_was_said(shared_broker: Broker, client: tenure.SyncClient) -> None:
    def handler(context: tenure.Context) -> bytes:
        if context.body == b"bad":
            raise tenure.Fail("no", final=True)
        return b"ran"

    bad = client.submit("broken", b"bad")
    cancelled = client.submit("broken", after=bad)
    held = client.submit("broken", after=bad.id, on_broken="hold")
    run = client.submit("broken", after=[bad], on_broken="run")
    rescue = client.submit("broken", after=tenure.After(bad.id, condition="failed"))
    with shared_broker.worker(["broken"], handler):
        assert run.result(LONG) == rescue.result(LONG) == b"ran"
        with pytest.raises(tenure.TaskCancelled):
            cancelled.result(LONG)
        until("it is held", lambda: held.status().state == "paused")
        held.resume()
        assert held.result(LONG) == b"ran"


def test_many_that_wait_for_each_other_go_in_one_submission(shared_broker: Broker, client: tenure.SyncClient) -> None:
    one, two = client.submit_many(
        [tenure.Submission("chain", b"1"), tenure.Submission("chain", b"2", after=[tenure.After(index=0)])]
    )
    assert isinstance(one, tenure.SyncTaskHandle) and isinstance(two, tenure.SyncTaskHandle)
    assert two.status().after[0].task == one.id


def test_functions_wait_for_functions(shared_broker: Broker) -> None:
    app = tenure.App(shared_broker.address, queue="functions after functions")

    @app.task
    def part(x: int) -> int:
        return x

    @app.task
    def total() -> list[str]:
        return [one.state or "" for one in tenure.current_context().after]

    parts = part.map(range(3))
    whole = total.with_options(after=parts).submit()
    with app.worker():
        assert whole.result(LONG) == ["completed"]
    app.close()


def test_what_cannot_be_waited_for(client: tenure.SyncClient) -> None:
    with pytest.raises(tenure.BadSetting, match="one of its id"):
        client.submit("q", after=tenure.After())
    with pytest.raises(tenure.BadSetting, match="completed, ended or failed"):
        client.submit("q", after=tenure.After(name="x", condition="done"))
    with pytest.raises(tenure.BadSetting, match="cancel, run or hold"):
        client.submit("q", on_broken="panic")
    with pytest.raises(tenure.BadSetting, match="pass a handle"):
        client.submit("q", after=[7])
    with pytest.raises(tenure.UnknownTask):
        client.submit("q", after="no such task")


def test_a_trace_goes_through_tasks_and_arrays(shared_broker: Broker) -> None:
    app = tenure.App(shared_broker.address, queue="traced")

    @app.task
    def leaf(_: int = 0) -> str:
        return str(tenure.current_context().traceparent)

    @app.task
    def root() -> list[str]:
        # What a task submits belongs to the same trace.
        return [leaf.submit().id, leaf.map([1])[0].id]

    with app.worker(slots=2):
        children = root.with_options(traceparent=TRACE, tracestate="v=1").submit().result(LONG)
        assert [app.client.show(child).traceparent for child in children] == [TRACE, TRACE]
        assert [app.client.show(child).tracestate for child in children] == ["v=1", "v=1"]
        assert leaf.submit().status().traceparent is None
    app.close()
