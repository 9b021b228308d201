"""Tasks are compared with those of another store."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from typing import Union

import pytest
import tenure
from tenure import Declared, Submission
from tenure.testing import Broker


def test_the_difference_is_reported_and_mended(client: tenure.SyncClient) -> None:
    for name in ("order/kept", "order/done there", "order/unknown"):
        client.submit("orders", name, name=name)
    # The broker counts milliseconds: a task of the same one might be younger than the other store.
    time.sleep(0.01)

    def read() -> Iterator[Union[Declared, str]]:
        yield "order/kept"
        yield Declared("order/done there", ended=True)
        yield Declared("order/missing", submission=Submission("orders", b"missing", tags=["late"]))
        yield "order/nowhere"
        # Submitted while the other store was read: left alone.
        client.submit("orders", b"young", name="order/young")

    def found(apply: bool) -> dict[str, tuple[str, bool]]:
        return {one.name: (one.difference, one.applied) for one in client.reconcile("order/", read, apply=apply)}

    different = {
        "order/done there": ("ended-there", False),
        "order/missing": ("missing", False),
        "order/nowhere": ("missing", False),
        "order/unknown": ("unknown-there", False),
    }
    told = found(apply=False)
    told.pop("order/young", None)
    assert told == different
    assert client.find("order/unknown").state == "ready"
    mended = client.reconcile("order/", read, apply=True)
    assert {one.name for one in mended if one.applied} >= {"order/done there", "order/missing", "order/unknown"}
    (nowhere,) = [one for one in mended if one.name == "order/nowhere"]
    assert not nowhere.applied
    assert client.find("order/unknown").state == client.find("order/done there").state == "cancelled"
    assert client.find("order/missing").terms.tags == ["late"] and client.find("order/kept").state == "ready"
    submitted = client.find("order/missing")
    assert submitted.reconciliation == client.explain(submitted.id).reconciliation == "order/"
    assert client.find("order/kept").reconciliation is None


def test_many_pages_of_a_store_that_is_awaited(shared_broker: Broker) -> None:
    async def story() -> None:
        async with tenure.Client(shared_broker.address) as client:

            async def read() -> AsyncIterator[Declared]:
                for number in range(2_500):
                    yield Declared(f"page/{number}", submission=Submission("pages", str(number)))

            assert len(await client.reconcile("page/", read, apply=True)) == 2_500
            assert await client.reconcile("page/", lambda: (f"page/{number}" for number in range(2_500))) == []
            gone = await client.reconcile("page/", lambda: [f"page/{number}" for number in range(2_499)])
            assert [(one.name, one.difference) for one in gone] == [("page/2499", "unknown-there")]

    asyncio.run(story())


def test_what_cannot_be_compared(client: tenure.SyncClient) -> None:
    with pytest.raises(tenure.BadSetting, match="is not a function"):
        client.reconcile("order/", ["order/1"])  # type: ignore[arg-type]
    with pytest.raises(tenure.BadSetting, match="does not begin with"):
        client.reconcile("order/", lambda: ["invoice/1"])
    with pytest.raises(tenure.BadSetting, match="pass its name"):
        client.reconcile("order/", lambda: [7])  # type: ignore[list-item]
