"""An app for tests, run by workers of their own processes."""

from __future__ import annotations

import asyncio
import ctypes
import dataclasses
import os
import time

import tenure

app = tenure.App(queue="tests")


@dataclasses.dataclass
class Point:
    x: float
    y: float


@app.task
def add(x: int, y: int = 0) -> int:
    return x + y


@app.task()
async def add_later(x: int, y: int) -> int:
    await asyncio.sleep(0.01)
    return x + y


@app.task(queue="tests")
def mirror(point: Point) -> Point:
    return Point(point.y, point.x)


@app.task(queue="tests", retries=0)
def divide(x: float, y: float) -> float:
    return x / y


@app.task(queue="tests", crash_budget=1, on_lost="fail")
def segfault() -> None:
    ctypes.string_at(0)


@app.task(queue="tests")
def note(line: str) -> None:
    tenure.current_context().logger.info(line)
    tenure.current_context().logger.debug("too much")


@app.task(queue="tests")
def pid() -> int:
    return os.getpid()


@app.task(queue="tests")
def spin(seconds: float) -> str:
    """Blocks without looking up."""
    tenure.current_context().progress(1, "spinning")
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        time.sleep(0.05)
    return "done"


@app.task(queue="tests")
def polite() -> None:
    context = tenure.current_context()
    context.progress(50, "waiting")
    context.sleep(600)


@app.task(queue="tests", retries=2, backoff=(0.001, 0.001))
def count_up() -> int:
    """Goes on where the last attempt stopped."""
    context = tenure.current_context()
    done = int(context.checkpoint or b"0")
    context.save_checkpoint(str(done + 1))
    if done < 2:
        raise RuntimeError(f"not yet: {done}")
    return done


@app.task(queue="tests", retries=4, tags=["licence"])
def terms() -> list[object]:
    told = tenure.current_context().terms
    return [told.queue, told.retries, told.tags]


@app.task(queue="tests")
def unencodable() -> object:
    return object()


@app.task(queue="tests")
def nested(depth: int) -> str:
    """Waits for a task of its own kind, without its slot."""
    if depth == 0:
        return "leaf"
    context = tenure.current_context()
    child = nested.with_options(parent=context.id).submit(depth - 1)
    (end,) = context.wait_for(child.id)
    assert (end.task, end.state) == (child.id, "completed")
    return f"{depth} over {child.result(timeout=60)}"


@app.task(queue="tests")
async def nested_later(depth: int) -> int:
    """The same for a function that awaits."""
    context = tenure.current_context()
    if depth == 0:
        return 0
    for _ in range(2):
        await nested_later.with_options(parent=context.id).submit_async(depth - 1)
    await context.save_checkpoint_async(b"submitted")
    return len(await context.wait_for_children_async())


@app.task(queue="tests")
def waits_for(task: str) -> None:
    tenure.current_context().wait_for(task)


@app.task(queue="tests")
def surroundings() -> list[object]:
    """Everything that a task can ask about itself."""
    context = tenure.current_context()
    print("said", file=context.stdout)
    return [context.array is not None, context.index, context.traceparent, context.cpus, len(context.after)]


@app.task(queue="tests")
def unreadable_name() -> None:
    raise OSError("cannot read caf\udce9.txt")


class Speechless(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


@app.task(queue="tests")
def speechless() -> None:
    raise Speechless


class Hostile(Exception):
    @property
    def __cause__(self) -> None:  # type: ignore[override]
        raise RuntimeError("looking at it fails")


@app.task(queue="tests")
def hostile() -> None:
    raise Hostile
