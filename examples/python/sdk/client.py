"""The low level: a client that awaits, and a worker that takes any bytes, in one program.

python client.py
"""

from __future__ import annotations

import asyncio

import tenure


async def shout(context: tenure.Context) -> bytes:
    await asyncio.sleep(0.01)
    return context.body.upper()


async def main() -> None:
    worker = tenure.Worker(shout, queues=["examples-shout"], slots=8)
    async with worker, tenure.Client() as client:
        tasks = [await client.submit("examples-shout", word) for word in ("hello", "from", "python")]
        print(*(result.decode() for result in await asyncio.gather(*(task.result() for task in tasks))))
        waiting = await client.submit("examples-unserved", b"")
        print("why not:", await client.explain(waiting.id))
        await waiting.cancel("only an example")
        async for info in client.list(queue="examples-shout", states=["completed"]):
            print(info.id, info.state, info.end.worker if info.end else "")


if __name__ == "__main__":
    asyncio.run(main())
