"""Tasks that the broker submits again and again."""

from __future__ import annotations

import asyncio

import pytest
import tenure
from conftest import LONG, until
from tenure.testing import Broker


def test_a_schedule_submits_its_task(shared_broker: Broker, client: tenure.SyncClient) -> None:
    with shared_broker.worker(["ticks"], lambda context: context.body):
        client.set_schedule("tick", "every 1s", "ticks", b"tock", overlap="skip", catch_up="last", tags=["clock"])
        until("it has fired", lambda: client.schedule("tick").fired >= 1)
        info = client.schedule("tick")
        assert (info.state, info.when, info.overlap, info.catch_up) == ("active", "every 1s", "skip", "last")
        assert info.terms.tags == ["clock"] and info.last_task is not None and len(info.next) > 0
        assert client.handle(info.last_task).result(LONG) == b"tock"
        client.pause_schedule("tick")
        assert client.schedule("tick").state == "paused" and "tick" in [one.schedule for one in client.schedules()]
        assert client.run_schedule("tick").result(LONG) == b"tock"
        client.resume_schedule("tick")
        client.remove_schedule("tick")
    with pytest.raises(tenure.Refused):
        client.schedule("tick")


def test_a_function_has_a_schedule(shared_broker: Broker) -> None:
    app = tenure.App(shared_broker.address, queue="reports")

    @app.task(retries=2, name="report")
    def report(day: str, copies: int = 1) -> str:
        return f"{copies} of {day}"

    report.schedule("report", "0 6 * * 1-5", ["monday"], {"copies": 3}, zone="Europe/Zurich", jitter=60, paused=True)
    with pytest.raises(TypeError, match=r"as a list, such as \['monday'\]"):
        report.schedule("report", "0 6 * * 1-5", "monday")
    info = app.client.schedule("report")
    assert (info.zone, info.jitter_ms, info.state, info.terms.retries) == ("Europe/Zurich", 60_000, "paused", 2)
    with app.worker():
        task = app.client.run_schedule("report")
        assert tenure.app.read_result(task.id, task.wait(LONG)) == "3 of monday"
    with pytest.raises(TypeError, match="missing a required argument"):
        report.schedule("report", "0 6 * * *")
    with pytest.raises(tenure.BadSetting, match="for the settings of a schedule"):
        report.schedule("report", "0 6 * * *", ["monday"], timezone="UTC")
    app.close()


def test_schedules_of_programs_that_await(shared_broker: Broker) -> None:
    async def story() -> None:
        async with tenure.Client(shared_broker.address) as client:
            await client.set_schedule("awaited", "every 1h", "awaited", expires_after=60)
            assert (await client.schedule("awaited")).expires_after_ms == 60_000
            await client.pause_schedule("awaited")
            await client.resume_schedule("awaited")
            assert (await (await client.run_schedule("awaited")).status()).state == "ready"
            assert "awaited" in [one.schedule for one in await client.schedules()]
            await client.remove_schedule("awaited")

    asyncio.run(story())


def test_what_cannot_be_a_schedule(client: tenure.SyncClient) -> None:
    for settings, match in [
        ({"overlap": "maybe"}, "queue, skip or cancel-old"),
        ({"catch_up": "some"}, "none, last or all"),
        ({"jitter": -1}, "negative"),
    ]:
        with pytest.raises(tenure.BadSetting, match=match):
            client.set_schedule("bad", "every 1h", "q", **settings)  # type: ignore[arg-type]
    with pytest.raises(tenure.BadSetting, match="a cron expression"):
        client.set_schedule("bad", 60, "q")  # type: ignore[arg-type]
    for when in ("every day", "61 * * * *"):
        with pytest.raises(tenure.Refused) as refused:
            client.set_schedule("bad", when, "q")
        assert refused.value.code == "bad-schedule"
    with pytest.raises(tenure.Refused, match="cannot have an earliest start time"):
        client.set_schedule("bad", "0 2 * * *", "q", delay=5)
