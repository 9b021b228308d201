"""Submitting, steering, looking and waiting, with both clients."""

from __future__ import annotations

import asyncio
import inspect
import json
import subprocess
import sys
import threading
import uuid
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path

import pytest
import tenure
import uvloop
from conftest import LONG, until
from tenure import Client, Submission, SyncClient, _binary
from tenure.testing import Broker


def shout(context: tenure.Context) -> bytes:
    return context.body.upper()


def test_a_task_goes_out_and_its_result_comes_back(shared_broker: Broker, client: SyncClient) -> None:
    with shared_broker.worker(["shout"], shout):
        task = client.submit("shout", "hello")
        assert task.result(timeout=LONG) == b"HELLO"
    status = task.status()
    assert (status.state, status.queue, status.attempt) == ("completed", "shout", 1)
    assert client.body(task.id) == b"hello" and client.result(task.id) == b"HELLO"
    kinds = [event.kind for event in task.events() if isinstance(event, tenure.Event)]
    assert kinds == ["submitted", "assigned", "started", "completed"]


def test_both_clients_have_the_same_verbs() -> None:
    def verbs(kind: type) -> dict[str, list[str]]:
        members = inspect.getmembers(kind, inspect.isfunction)
        public = {name: of for name, of in members if not name.startswith("_")}
        return {name: list(inspect.signature(of).parameters) for name, of in public.items()}

    ours, theirs = verbs(Client), verbs(SyncClient)
    theirs.pop("future_of")
    assert ours == theirs


def test_a_pause_stops_a_command_in_place_or_ends_its_attempt(tenure_broker: Broker, tmp_path: Path) -> None:
    command = [_binary.find(), "work", "--broker", tenure_broker.address, "--queue", "commands", "--slots", "2"]
    worker = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    body = json.dumps({"command": ["sleep", "600"]})

    async def terminate_async(task: str) -> None:
        async with Client(tenure_broker.address) as client:
            await client.handle(task).pause("from a loop", terminate=True)

    try:
        with tenure_broker.client() as client:
            task, array = client.submit("commands", body), client.submit_array("commands", body, size=1)
            element = array[0]
            for one, pause in ((task, task.pause), (element, array.pause)):
                until("it runs", lambda one=one: one.status().state == "running")  # type: ignore[misc]
                pause("lunch")
                until("it is stopped", lambda one=one: one.status().state == "suspended")  # type: ignore[misc]
                client.resume(one.id)
                until("it runs", lambda one=one: one.status().state == "running")  # type: ignore[misc]
                assert one.status().attempt == 1
                pause("another machine", terminate=True)
                until("it is paused", lambda one=one: one.status().state == "paused")  # type: ignore[misc]
                client.resume(one.id)
                until("it runs", lambda one=one: one.status().state == "running")  # type: ignore[misc]
                assert one.status().attempt == 2
            asyncio.run(terminate_async(task.id))
            until("it is paused", lambda: task.status().state == "paused")
            array.cancel()
            assert element.wait(timeout=LONG).state == "cancelled"
    finally:
        worker.kill()
        worker.wait()


def test_a_watch_tells_which_events_are_no_longer_kept() -> None:
    with Broker(events_kept="8", snapshot_size="64KB") as broker:
        for _ in range(10):
            with broker.client() as client:
                for _ in range(40):
                    client.submit("old", b"x" * 1_000)
            # A broker that stops takes a snapshot, and the next one drops what is too old.
            broker.stop()
            broker.start()
            with broker.client() as client, client.watch(from_=1) as watch:
                if isinstance(watch.next(LONG), tenure.EventGap):
                    break
        with broker.client() as client, client.watch(from_=1) as watch:
            client.submit("new", b"")
            told = [watch.next(LONG)]
            while not (isinstance(told[-1], tenure.Event) and told[-1].queue == "new"):
                told.append(watch.next(LONG))
        gap, *events = told
        assert isinstance(gap, tenure.EventGap)
        assert gap.first_missed == 1 and gap.last_missed > 1
        # Nothing is missing after the gap.
        numbers = [event.seq for event in events if isinstance(event, tenure.Event)]
        assert numbers == list(range(gap.last_missed + 1, gap.last_missed + 1 + len(events)))
        assert len(numbers) >= 8


def test_a_named_task_is_submitted_once(client: SyncClient) -> None:
    name = str(uuid.uuid4())
    first = client.submit("named", b"1", name=name)
    again = client.submit("named", b"1", name=name)
    assert first.id == again.id
    assert first.accepted is not None and not first.accepted.known
    assert again.accepted is not None and again.accepted.known
    assert client.find(name).id == first.id


def test_many_are_submitted_and_each_has_a_verdict(client: SyncClient) -> None:
    verdicts = client.submit_many([Submission("many", b"1"), Submission("", b"2"), Submission("many", b"3")])
    assert isinstance(verdicts[1], tenure.Refused) and verdicts[1].code == "bad-name"
    assert all(isinstance(verdicts[place], tenure.SyncTaskHandle) for place in (0, 2))


def test_the_reason_for_waiting_is_explained(client: SyncClient) -> None:
    task = client.submit("unserved", b"")
    assert task.accepted is not None and task.accepted.unserved is not None
    why = client.explain(task.id)
    assert why.code == "no-worker-ever" and "unserved" in str(why)


def test_a_task_is_held_released_paused_resumed_moved_and_cancelled(client: SyncClient) -> None:
    task = client.submit("steered", b"", hold=True, tags=["licence"])
    assert task.status().state == "created"
    client.release(task.id)
    assert task.status().state == "ready"
    task.pause("lunch")
    assert task.status().state == "paused"
    task.resume()
    client.move(task.id, queue="elsewhere", priority=7)
    assert (task.status().queue, task.status().priority) == ("elsewhere", 7)
    task.cancel("not wanted")
    with pytest.raises(tenure.TaskCancelled, match="not wanted"):
        task.result(timeout=LONG)


def test_rates_and_shares_are_set_and_seen(client: SyncClient) -> None:
    client.set_tag_rate("api", "10/m", burst=5)
    limit = next(one for one in client.limits() if one.tag == "api")
    assert limit.rate == {"count": 10, "period_ms": 60_000, "burst": 5}
    client.set_tag_rate("api", None)
    assert all(one.tag != "api" for one in client.limits())
    client.set_queue_rate("paced", "100/s")
    queue = next(one for one in client.queues() if one.queue == "paced")
    assert queue.rate == {"count": 100, "period_ms": 1_000, "burst": 100}
    client.set_queue_rate("paced", None)
    with pytest.raises(tenure.BadSetting):
        client.set_queue_rate("paced", "often")
    client.set_share("alice", 3)
    task = client.submit("shared", b"x", share="alice")
    share = next(one for one in client.shares() if one.share == "alice")
    assert (share.weight, share.ready) == (3, 1)
    assert client.show(task.id).terms.share == "alice"
    client.cancel(task.id)
    client.set_share("alice", None)


def test_limits_queues_and_workers_are_seen(shared_broker: Broker, client: SyncClient) -> None:
    client.set_limit("gpu-licence", 2)
    assert [(one.tag, one.limit) for one in client.limits() if one.tag == "gpu-licence"] == [("gpu-licence", 2)]
    with shared_broker.worker(["seen"], shout, id="seen-worker", slots=3, capabilities=["gpu"]):
        worker = next(one for one in client.workers() if one.worker == "seen-worker")
        assert (worker.slots, worker.capabilities, worker.presence) == (3, ["gpu"], "live")
        client.submit("seen", b"x", needs=["gpu"]).result(timeout=LONG)
        queue = next(one for one in client.queues() if one.queue == "seen")
        assert queue.live_workers == 1 and queue.counts.completed == 1
    client.set_thresholds("seen", depth=1)
    client.submit("seen", b"waits")
    queue = next(one for one in client.queues() if one.queue == "seen")
    assert queue.thresholds == {"depth": 1} and queue.backlog == ["depth"]
    client.set_thresholds("seen")
    client.pause_queue("seen")
    assert next(one for one in client.queues() if one.queue == "seen").paused


def test_a_listing_goes_on_over_pages(client: SyncClient) -> None:
    for verdict in client.submit_many([Submission("listed", str(number)) for number in range(25)]):
        assert not isinstance(verdict, Exception)
    assert len(list(client.list(queue="listed", states=["ready"], page=10))) == 25


def test_waiting_ends_when_the_time_is_up(client: SyncClient) -> None:
    task = client.submit("never", b"")
    with pytest.raises(tenure.ResultTimeout, match="keeps running"):
        task.result(timeout=0.05)
    ended, pending = client.wait_all([task.id], timeout=0.05)
    assert ended == {} and pending == [task.id]


def test_futures_of_many_tasks_are_waited_for_together(shared_broker: Broker, client: SyncClient) -> None:
    futures = [client.submit("futures", str(number)).future() for number in range(20)]
    with shared_broker.worker(["futures"], shout, slots=4):
        done, pending = wait(futures, timeout=LONG)
    assert not pending and sorted(int(future.result()) for future in done) == list(range(20))


def test_threads_share_a_client(client: SyncClient) -> None:
    with ThreadPoolExecutor(8) as threads:
        ids = list(threads.map(lambda number: client.submit("threads", str(number)).id, range(200)))
    assert len(set(ids)) == 200


def test_events_are_watched_from_a_number_on(client: SyncClient) -> None:
    first = client.submit("watched", b"")
    with client.watch(queue="watched", from_=1) as watch:
        seen = next(watch)
        assert isinstance(seen, tenure.Event) and (seen.kind, seen.task) == ("submitted", first.id)
        second = client.submit("watched", b"")
        seen = next(watch)
        assert isinstance(seen, tenure.Event) and seen.task == second.id
        assert watch.next(timeout=0.05) is None


def test_closing_a_watch_ends_the_wait_for_it(client: SyncClient) -> None:
    watch = client.watch(queue="closed")
    seen: list[object] = []
    thread = threading.Thread(target=lambda: seen.extend(watch))
    thread.start()
    watch.close()
    thread.join(LONG)
    assert not thread.is_alive() and seen == []


async def everything(broker: Broker) -> None:
    async def shout_later(context: tenure.Context) -> bytes:
        await asyncio.sleep(0.01)
        return context.body.upper()

    loops = set()

    async def shout_here(context: tenure.Context) -> bytes:
        loops.add(asyncio.get_running_loop())
        return await shout_later(context)

    worker = tenure.Worker(shout_here, queues=["async"], address=broker.address, slots=50)
    async with worker, broker.async_client() as client:
        tasks = await asyncio.gather(*(client.submit("async", str(number)) for number in range(100)))
        results = await asyncio.wait_for(asyncio.gather(*(task.result() for task in tasks)), LONG)
        assert results == [str(number).encode() for number in range(100)]
        assert loops == {asyncio.get_running_loop()}
        assert len([task async for task in client.list(queue="async", page=30)]) == 100
        assert await client.identity()
        with pytest.raises(tenure.UnknownTask):
            await client.show(str(uuid.uuid4()))
        # A wait that is given up leaves the client as it was.
        pending = await client.submit("async-never", b"")
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(pending.result(), 0.05)
        assert (await pending.status()).state == "ready"
    with pytest.raises(tenure.Closed):
        await client.ping()
    assert worker.stats["completed"] == 100


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_the_client_for_event_loops(loop: str) -> None:
    with Broker() as broker:
        run = uvloop.run if loop == "uvloop" else asyncio.run
        run(everything(broker))


def test_a_worker_of_an_event_loop_stops_when_it_is_cancelled(shared_broker: Broker, client: SyncClient) -> None:
    async def forever(context: tenure.Context) -> None:
        await asyncio.sleep(600)

    async def main() -> None:
        worker = tenure.Worker(forever, queues=["cancelled"], address=shared_broker.address)
        running = asyncio.ensure_future(worker.run_async())
        task = await asyncio.to_thread(client.submit, "cancelled")
        await asyncio.to_thread(until, "it runs", lambda: task.status().state == "running")
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        # It was given back, so another worker can have it at once.
        assert (await asyncio.to_thread(task.status)).state == "ready"

    asyncio.run(asyncio.wait_for(main(), LONG))


@pytest.mark.skipif(sys.version_info < (3, 11), reason="older versions do not tell who cancelled")
def test_a_task_whose_event_loop_ends_is_given_back(shared_broker: Broker, client: SyncClient) -> None:
    async def forever(context: tenure.Context) -> None:
        await asyncio.sleep(600)

    task = client.submit("loop-ends")

    async def main() -> tenure.Worker:
        worker = tenure.Worker(forever, queues=["loop-ends"], address=shared_broker.address)
        await worker.__aenter__()
        await asyncio.to_thread(until, "it runs", lambda: task.status().state == "running")
        return worker

    # The program forgets to stop its worker.
    worker = asyncio.run(main())
    until(
        "it is given back", lambda: "given-back" in {getattr(event, "kind", "") for event in _events(client, task.id)}
    )
    worker.leave_now()


def test_a_handler_that_raises_cancelled_error_itself_has_failed(shared_broker: Broker, client: SyncClient) -> None:
    async def cancel_itself(context: tenure.Context) -> None:
        raise asyncio.CancelledError("its own idea")

    with shared_broker.worker(["own-idea"], cancel_itself), pytest.raises(tenure.TaskFailed, match="its own idea"):
        client.submit("own-idea").result(timeout=LONG)


def _events(client: SyncClient, task: str) -> list[object]:
    with client.watch(task=task, from_=1) as watch:
        events: list[object] = []
        while (event := watch.next(0.2)) is not None:
            events.append(event)
        return events


def test_a_task_weighs_slots_and_needs_resources(shared_broker: Broker, client: SyncClient) -> None:
    queue = str(uuid.uuid4())

    def devices(context: tenure.Context) -> str:
        return f"{context.cpus} {context.gpus} {context.terms.slots}"

    with shared_broker.worker([queue], devices, resources={"gpus": 1, "cpus": 2, "mem": "4GB"}):
        task = client.submit(queue, b"", resources={"gpus": 0.5, "cpus": 2, "mem": "1GB"})
        assert task.result(timeout=LONG) == b"[0, 1] [0] 1"
        light = client.submit(queue, b"", slots=0)
        assert light.result(timeout=LONG) == b"[] [] 0"
        info = next(worker for worker in client.workers() if queue in worker.queues)
        assert (info.slots_used, info.light_slots, len(info.resources)) == (0, 1_000, 3)
    for wrong in ({"gpus": 1.5}, {"gpus": None}, {"mem": "lots"}, {"gpus": 0.0001}):
        with pytest.raises(tenure.TenureError):
            client.submit(queue, b"", resources=wrong)
