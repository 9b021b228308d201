"""Hooks, and what they could not deliver."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
import tenure
from conftest import until
from tenure.testing import Broker


def test_what_a_hook_gave_up_is_listed_and_sent_again(tmp_path: Path) -> None:
    config, mark = tmp_path / "tenure.toml", tmp_path / "mark"
    config.write_text(
        f"""
        [[on_event]]
        name = "page"
        command = ["/bin/sh", "-c", "test -e {mark}"]
        events = ["submitted"]
        attempts = 1
        """
    )
    with Broker(config=str(config)) as broker, broker.client() as client:
        (hook,) = client.hooks()
        assert (hook.hook, hook.kind, hook.events) == ("page", "command", ["submitted"])
        task = client.submit("hooked")
        until("it was given up", lambda: len(client.undelivered("page")) == 1)
        (event,) = client.undelivered("page")
        assert event.kind == "submitted" and event.attempts >= 1 and task.id.encode() in event.body
        mark.touch()
        assert client.redeliver("page", event.seq) == 1
        until("it was delivered", lambda: client.hooks()[0].delivered == 1)
        assert client.undelivered("page") == [] and client.redeliver("page") == 0
        with pytest.raises(tenure.Refused):
            client.undelivered("no such hook")

        async def story() -> None:
            async with broker.async_client() as waits:
                assert (await waits.hooks())[0].delivered == 1
                assert await waits.undelivered("page") == [] and await waits.redeliver("page") == 0

        asyncio.run(story())
