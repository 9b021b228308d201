"""A client, a worker and an app, with nothing but the wheel: a program that runs with every version of Python."""

from __future__ import annotations

import asyncio
import collections
import dataclasses
import os
import subprocess
import sys
from pathlib import Path

import tenure
from tenure.testing import Broker

HERE = Path(__file__).parent
LONG = 60.0

app = tenure.App(queue="smoke")
Position = collections.namedtuple("Position", "x y")


@dataclasses.dataclass
class Point:
    x: float
    y: float


@app.task
def mirror(point: Point) -> Point:
    return Point(point.y, point.x)


@app.task
async def process() -> tuple[int, Position]:
    await asyncio.sleep(0)
    return os.getpid(), Position(1, 2)


@app.task
def fails() -> None:
    raise ValueError("no good")


def clients_and_workers(broker: Broker) -> None:
    with broker.client() as client, broker.worker(["shout"], lambda context: context.body.upper()):
        assert client.submit("shout", "hello").result(timeout=LONG) == b"HELLO"

    async def later(context: tenure.Context) -> bytes:
        await asyncio.sleep(0)
        return context.body[::-1]

    async def ask() -> bytes:
        async with broker.async_client() as client, tenure.Worker(later, queues=["turn"], address=broker.address):
            task = await client.submit("turn", b"abc")
            return await task.result(timeout=LONG)

    assert asyncio.run(ask()) == b"cba"


def apps(broker: Broker) -> None:
    app.configure(address=broker.address)
    for pool in ("threads", "processes", "asyncio"):
        command = [sys.executable, "-m", "tenure", "work", "smoke:app", "--broker", broker.address, "--pool", pool]
        worker = subprocess.Popen(command, cwd=HERE)
        try:
            results = mirror.map([Point(1.0, float(number)) for number in range(50)]).results(timeout=LONG)
            assert [point.x for point in results] == [float(number) for number in range(50)]
            number, position = process.submit().result(timeout=LONG)
            assert number != os.getpid() and position == (1, 2)
            try:
                fails.submit().result(timeout=LONG)
            except tenure.TaskFailed as error:
                assert "no good" in str(error) and error.type_name == "ValueError"
            else:
                raise AssertionError("the task did not fail")
        finally:
            worker.terminate()
            assert worker.wait(LONG) == 0
    app.close()


if __name__ == "__main__":
    # The processes of the worker find the classes by the name of the module.
    import smoke

    with Broker() as one:
        smoke.clients_and_workers(one)
        smoke.apps(one)
    print(f"Python {sys.version.split()[0]}: a client, a worker and an app work")
