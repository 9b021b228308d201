"""What tasks print while they run."""

from __future__ import annotations

import asyncio
import threading
from datetime import datetime, timezone

import pytest
import tasks_app
import tenure
from conftest import LONG, end_worker, start_worker, until
from tenure.logs import _Printed
from tenure.testing import Broker


@pytest.mark.parametrize("pool", ["processes", "threads", "asyncio"])
def test_a_worker_shows_what_its_tasks_log(app_broker: Broker, capfd: pytest.CaptureFixture[str], pool: str) -> None:
    worker = start_worker(app_broker, "--pool", pool, "--slots", "1")
    tasks_app.note.submit(f"half way in {pool}").result(timeout=LONG)
    assert end_worker(worker) == 0
    told = capfd.readouterr().err
    assert f"INFO tenure.task: half way in {pool}\n" in told and "too much" not in told, told


def test_what_a_handler_logs_carries_its_task(
    shared_broker: Broker, client: tenure.SyncClient, caplog: pytest.LogCaptureFixture
) -> None:
    def handler(context: tenure.Context) -> None:
        context.logger.warning("half %s", "way", extra={"step": 3})

    with shared_broker.worker(["logging"], handler):
        task = client.submit("logging")
        task.result(timeout=LONG)
    (record,) = [record for record in caplog.records if record.message == "half way"]
    fields = vars(record)
    assert (fields["task"], fields["attempt"], fields["queue"], fields["step"]) == (task.id, 1, "logging", 3)


def test_output_is_followed_while_the_task_runs(shared_broker: Broker, client: tenure.SyncClient) -> None:
    go = threading.Event()

    def handler(context: tenure.Context) -> None:
        print("begun", file=context.stdout)
        context.append_log(b"warm\n", "stderr")
        go.wait(LONG)
        print("do", "ne", sep="", end="", file=context.stdout)

    task = client.submit("printing")
    with shared_broker.worker(["printing"], handler):
        until("something is printed", lambda: len(list(task.logs())) == 2)
        seen = []
        for chunk in client.logs(task.id, follow=True):
            seen.append((chunk.stream, chunk.offset, chunk.text))
            go.set()
        assert sorted(seen) == [("stderr", 0, "warm\n"), ("stdout", 0, "begun\n"), ("stdout", 6, "done")]


def test_large_output_comes_whole(shared_broker: Broker) -> None:
    line = "x" * 99 + "\n"

    async def handler(context: tenure.Context) -> None:
        context.append_log(line * 2_000)

    async def story() -> None:
        async with tenure.Client(shared_broker.address) as client:
            task = await client.submit("large output")
            async with tenure.Worker(handler, queues=["large output"], address=shared_broker.address):
                assert "".join([chunk.text async for chunk in task.logs(follow=True)]) == line * 2_000

    asyncio.run(story())


def test_a_piece_that_comes_twice_is_printed_once() -> None:
    printed = _Printed()

    def piece(offset: int, data: bytes, attempt: int = 1) -> tenure.LogChunk:
        return tenure.LogChunk(attempt, "stdout", offset, datetime.now(timezone.utc), data)

    def fresh(chunk: tenure.LogChunk) -> object:
        told = printed.fresh(chunk)
        return None if told is None else (told.offset, told.data)

    assert fresh(piece(0, b"abc")) == (0, b"abc")
    assert fresh(piece(0, b"abc")) is None
    assert fresh(piece(2, b"cde")) == (3, b"de")
    assert fresh(piece(9, b"j")) == (9, b"j")
    assert fresh(piece(0, b"abc", attempt=2)) == (0, b"abc")


def test_only_two_streams_are_known(shared_broker: Broker, client: tenure.SyncClient) -> None:
    def handler(context: tenure.Context) -> None:
        context.append_log("x", "stdlog")

    with (
        shared_broker.worker(["streams"], handler),
        pytest.raises(tenure.TaskFailed, match="use stdout or stderr"),
    ):
        client.submit("streams").result(LONG)
