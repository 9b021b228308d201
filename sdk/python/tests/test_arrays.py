"""Many tasks that are submitted, shown, limited, waited for and cancelled as one."""

from __future__ import annotations

import asyncio
import threading

import pytest
import tenure
from conftest import LONG, until
from tenure import arrays
from tenure.testing import Broker


def test_elements_share_a_body_and_have_indexes(shared_broker: Broker, client: tenure.SyncClient) -> None:
    array = client.submit_array("indexes", b"shared", size=3, first=10, step=5, name="indexes")
    assert len(array) == 3 and array.counts().ready == 3
    assert client.submit_array("indexes", b"shared", size=3, first=10, step=5, name="indexes").id == array.id
    assert client.find_array("indexes").id == array.id
    assert client.arrays()[0].id == array.id
    assert [info.index for info in array.infos()] == [10, 15, 20]
    assert [info.id for info in client.list(queue="indexes", without_elements=True)] == []

    def handler(context: tenure.Context) -> str:
        assert context.array == array.id
        return f"{context.index} {context.body.decode()}"

    with shared_broker.worker(["indexes"], handler):
        info = array.wait(LONG)
        assert (info.state, info.counts.completed) == ("completed", 3)
        assert array.results(LONG) == [b"10 shared", b"15 shared", b"20 shared"]
    assert array.element(15).result(LONG) == array[1].result(LONG) == array[-2].result(LONG) == b"15 shared"
    with pytest.raises(IndexError, match="10 to 20 by 5, not 12"):
        array.element(12)
    with pytest.raises(IndexError, match="index 3 is out of range"):
        array[3]
    again = client.array_handle(client.show_array(array.id))
    assert again.ids == array.ids == [task.id for task in again]


def test_a_limit_holds_and_can_be_changed_while_elements_run(shared_broker: Broker, client: tenure.SyncClient) -> None:
    lock, running, most = threading.Lock(), 0, 0
    go = threading.Event()

    def handler(context: tenure.Context) -> None:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        go.wait(LONG)
        with lock:
            running -= 1

    array = client.submit_array("limited", bodies=[str(number) for number in range(6)], limit=2)
    with shared_broker.worker(["limited"], handler, slots=6):
        until("two run", lambda: most == 2)
        assert client.explain(array[5].id).code == "array-limit"
        array.limit(4)
        until("four run", lambda: most == 4)
        array.limit(None)
        until("all run", lambda: most == 6)
        go.set()
        assert array.wait(LONG).counts.completed == 6


def test_an_array_is_paused_resumed_and_cancelled_as_one(client: tenure.SyncClient) -> None:
    array = client.submit_array("steered", size=4)
    array.pause("later")
    assert array.counts().paused == 4
    array.resume()
    assert array.counts().ready == 4
    with pytest.raises(tenure.ResultTimeout, match="keeps running"):
        array.wait(0.01)
    with pytest.raises(tenure.ResultTimeout, match="4 of 4"):
        array.results(0.01)
    array.cancel("not wanted")
    assert array.wait(LONG).counts.cancelled == 4
    with pytest.raises(tenure.TaskCancelled, match="not wanted"):
        array.results(LONG)
    assert all(isinstance(one, tenure.TaskCancelled) for one in array.results(LONG, return_exceptions=True))
    with pytest.raises(tenure.WrongState):
        array.cancel()


def test_arrays_of_programs_that_await(shared_broker: Broker) -> None:
    async def story() -> None:
        async with tenure.Client(shared_broker.address) as client:
            array = await client.submit_array("awaited", bodies=["a", "b"], name="awaited")
            assert (await array.counts()).ready == 2 and (await client.find_array("awaited")).id == array.id
            worker = tenure.Worker(lambda context: context.body.upper(), queues=["awaited"], address=client_address)
            async with worker:
                assert (await array.wait(LONG)).ended
                assert await array.results(LONG) == [b"A", b"B"]
                assert await array.element(1).result(LONG) == b"B"
            assert [info.index async for info in array.infos()] == [0, 1]
            assert array.id in [one.id for one in await client.arrays()]

    client_address = shared_broker.address
    asyncio.run(story())


def test_what_cannot_be_an_array(client: tenure.SyncClient) -> None:
    for options, match in [
        ({}, "a size or a list"),
        ({"size": 2, "bodies": ["a"]}, "a size or a list"),
        ({"bodies": "ab"}, "one body"),
        ({"size": -1}, "a number from 0"),
        ({"size": 1, "step": "2"}, "a number from 0"),
        ({"body": b"shared", "bodies": ["a"]}, "leave out the body"),
    ]:
        with pytest.raises(tenure.BadSetting, match=match):
            client.submit_array("q", **options)  # type: ignore[arg-type]
    with pytest.raises(tenure.Refused) as refused:
        client.submit_array("q", size=0)
    assert refused.value.code == "bad-value"
    with pytest.raises(tenure.UnknownTask):
        client.find_array("no such array")
    with pytest.raises(tenure.BodyTooLarge, match="together"):
        client.submit_array("q", bodies=[b"x" * (9 << 20)] * 2)


def test_a_map_is_one_array(shared_broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    app = tenure.App(shared_broker.address, queue="mapped")

    @app.task
    def double(x: int) -> int:
        return 2 * x

    batch = double.map(range(100), limit=3)
    assert len(batch.arrays) == 1 and app.client.show_array(batch.arrays[0].id).limit == 3
    assert (len(batch), batch.counts().ready) == (100, 100)
    batch.limit(None)
    with app.worker(slots=4):
        assert batch.results(LONG) == [2 * x for x in range(100)]
        assert batch.wait(LONG).completed == 100
    assert batch[7].result(LONG) == batch[-93].result(LONG) == 14
    # Another program finds them by their ids.
    assert double.handle(batch.ids[7]).result(LONG) == 14
    assert double.batch(batch.arrays[0].id).results(LONG) == batch.results(LONG)
    assert double.map([]).results() == [] and double.map([]).counts() == tenure.StateCounts()

    # Arguments that do not fit into one array take several, which behave as one.
    monkeypatch.setattr(arrays, "BODIES_BYTES_MAX", 100)
    parts = double.map(range(10))
    assert len(parts.arrays) > 2 and len(parts) == 10
    assert [task.id for task in parts] == parts.ids and parts[9].id == parts.ids[9]
    with app.worker(slots=4):
        assert parts.results(LONG) == [2 * x for x in range(10)]
    # Any of them stands for all, also in a task that runs after them.
    for array in parts.arrays:
        assert double.batch(array.id).results(LONG) == [2 * x for x in range(10)]
    assert [info.index for array in parts.arrays for info in array.infos()] == list(range(10))

    @app.task
    def total() -> int:
        return sum(double.batch(tenure.current_context().after[0].task).results(LONG))

    with app.worker(slots=4):
        assert total.with_options(after=parts).submit().result(LONG) == 90
    parts.cancel()
    with pytest.raises(tenure.BadSetting, match="limit them by a tag"):
        parts.limit(2)
    with pytest.raises(tenure.BadSetting, match="limit them by a tag"):
        double.map(range(10), limit=2)
    app.close()


def test_a_map_whose_parts_are_not_all_there_is_not_read_in_part(shared_broker: Broker) -> None:
    app = tenure.App(shared_broker.address, queue="in parts")

    @app.task
    def double(x: int) -> int:
        return 2 * x

    names = [arrays.part_name("torn", number, 3) for number in (1, 2, 3)]
    assert arrays.part_names(names[1]) == names
    assert arrays.part_names(None) is arrays.part_names("n") is arrays.part_names("n-part4of3") is None
    only = app.client.submit_array("in parts", bodies=["a"], name=names[0])
    with pytest.raises(tenure.UnknownTask, match="torn-part2of3"):
        double.batch(only.id)
    app.close()


def test_a_map_that_awaits(shared_broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    app = tenure.App(shared_broker.address, queue="mapped later")

    @app.task
    def double(x: int) -> int:
        return 2 * x

    async def story() -> None:
        batch = await double.map_async(range(5), limit=2)
        assert (await batch.counts()).ready == 5
        await batch.limit(5)
        with app.worker():
            assert await batch.results(LONG) == [0, 2, 4, 6, 8]
        assert (await batch.wait(LONG)).completed == 5
        assert await double.handle_async(batch.ids[2]).result(LONG) == 4
        assert await (await double.batch_async(batch.arrays[0].id)).results(LONG) == [0, 2, 4, 6, 8]
        await batch.cancel()
        monkeypatch.setattr(arrays, "BODIES_BYTES_MAX", 100)
        parts = await double.map_async(range(10))
        assert len(parts.arrays) > 2
        with app.worker():
            whole = await double.batch_async(parts.arrays[1].id)
            assert await whole.results(LONG) == [2 * x for x in range(10)]

    asyncio.run(story())
    app.close()
