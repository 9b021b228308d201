"""Each mistake has an exception of its own, which says what to do."""

from __future__ import annotations

import socket
import struct
import threading
from pathlib import Path
from typing import Any

import pytest
import tenure
from conftest import LONG
from tenure.testing import Broker

KEY = "7e" * 32


def test_a_wrong_key(tmp_path: Path) -> None:
    config = tmp_path / "tenure.toml"
    config.write_text(f'[[keys]]\nname = "lab"\nkey = "{KEY}"\n')
    with Broker(config=str(config)) as broker:
        with broker.client(key=KEY) as client:
            client.ping()
        for key in (KEY[::-1], None):
            with pytest.raises(tenure.WrongKey) as refused:
                broker.client(key=key).ping()
            assert KEY[::-1] not in str(refused.value)


def test_a_wrong_address() -> None:
    for address in ("http://host", "host:notaport", "unix:"):
        with pytest.raises(tenure.WrongAddress, match="write host:port"):
            tenure.SyncClient(address).ping()


def test_no_broker_at_the_address() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.raises(tenure.Unreachable, match="is `tenure serve` running there") as unreachable:
        tenure.SyncClient(f"127.0.0.1:{port}", connect_timeout=0.2).ping()
    assert unreachable.value.transient and isinstance(unreachable.value, ConnectionError)


def _serve_once(answer: bytes) -> str:
    server = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        with server:
            while True:
                peer, _ = server.accept()
                with peer:
                    peer.recv(4096)
                    peer.sendall(answer)

    threading.Thread(target=serve, daemon=True).start()
    return f"127.0.0.1:{server.getsockname()[1]}"


def test_a_certificate_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(tenure.BadSetting, match=r"ca\.pem"):
        tenure.SyncClient(f"tls://127.0.0.1:1?ca={tmp_path}/ca.pem").ping()


def test_something_that_is_no_broker() -> None:
    address = _serve_once(b"HTTP/1.1 400 Bad Request\r\n\r\n")
    with pytest.raises(tenure.WrongVersion, match="check the address"):
        tenure.SyncClient(address, connect_timeout=1).ping()


def test_a_broker_of_another_version() -> None:
    import msgpack

    refusal = {"code": "bad-version", "message": "this broker speaks version 9", "versions": [9]}
    body = msgpack.packb([1, "refused", refusal])
    address = _serve_once(struct.pack(">I", len(body)) + body)
    with pytest.raises(tenure.WrongVersion):
        tenure.SyncClient(address, connect_timeout=1).ping()


def test_a_body_that_is_too_large(client: tenure.SyncClient) -> None:
    advice = "the broker accepts at most .*: put the data elsewhere and submit a reference"
    with pytest.raises(tenure.BodyTooLarge, match=advice):
        client.submit("large", b"x" * (17 << 20))
    assert client.ping() > 0


def test_a_request_that_is_too_large_leaves_the_connection_alone(client: tenure.SyncClient) -> None:
    large = b"x" * (18 << 20)
    with client.listen(["large"]) as calls, client.subscribe(["large"]) as messages:
        for request in (
            lambda: client.call("large", large),
            lambda: client.broadcast(large),
            lambda: client.publish("large", large),
            lambda: client.set_schedule("large", "every 1h", "q", large),
        ):
            with pytest.raises(tenure.BodyTooLarge, match=r"accepts at most .*: put the data elsewhere"):
                request()
        # An answer that is too large is the receiver's mistake; the caller learns that there is none.
        thread = threading.Thread(target=lambda: _answer(next(iter(calls)), large))
        thread.start()
        with pytest.raises(tenure.CallCancelled):
            client.call("large", b"", timeout=LONG)
        thread.join(LONG)
        client.publish("large", b"1")
        message = messages.next(LONG)
        assert message is not None and message.payload == b"1"


def _answer(call: tenure.SyncCall, body: bytes) -> None:
    with pytest.raises(tenure.BodyTooLarge):
        call.answer(body)


def test_a_result_that_is_no_bytes(shared_broker: Broker, client: tenure.SyncClient) -> None:
    def handler(context: tenure.Context) -> Any:
        return {"a": 1}

    with (
        shared_broker.worker(["objects"], handler),
        pytest.raises(tenure.ResultNotEncodable, match="returned dict"),
    ):
        client.submit("objects", b"", retries=5).result(timeout=LONG)


def test_a_result_that_is_too_large(shared_broker: Broker, client: tenure.SyncClient) -> None:
    advice = "the broker takes at most .*: store it elsewhere and return a reference"
    with (
        shared_broker.worker(["large results"], lambda context: b"x" * (17 << 20)),
        pytest.raises(tenure.ResultTooLarge, match=advice),
    ):
        client.submit("large results", b"").result(timeout=LONG)


def test_values_that_cannot_be_right(client: tenure.SyncClient) -> None:
    with pytest.raises(tenure.BadSetting, match="is not a UUID"):
        client.show("seven")
    with pytest.raises(tenure.BadSetting, match="requeue, pause or fail"):
        client.submit("q", b"", on_lost="panic")
    with pytest.raises(tenure.BadSetting, match="bytes or text"):
        client.submit("q", {"a": 1})  # type: ignore[arg-type]
    with pytest.raises(tenure.BadSetting, match="negative"):
        client.submit("q", b"", run_limit=-1)
    with pytest.raises(tenure.BadSetting, match="a list of names"):
        client.subscribe("topic")
    with pytest.raises(tenure.BadSetting, match="at least one task"):
        tenure.Worker(lambda context: None, queues=["q"], slots=0)
    with pytest.raises(tenure.BadSetting, match="a list of names"):
        tenure.Worker(lambda context: None, queues="q")
    with pytest.raises(TypeError):
        client.submit("q", b"", retires=3)


@pytest.mark.parametrize(
    ("option", "value", "advice"),
    [
        ("retries", -1, "retries is -1: pass a number from 0 to 65535"),
        ("crash_budget", 1 << 40, "crash_budget is 1099511627776: pass a number from 0"),
        ("priority", 1 << 40, "priority is 1099511627776: pass a number from -2147483648"),
        ("slots", "two", "slots is 'two': pass a number from 0"),
        ("retries", True, "retries is True"),
        ("parent", 7, "parent is 7: pass a text"),
        ("share", 7, "share is 7: pass a text"),
        ("queue", None, "queue is None: pass a text"),
        ("on_lost", "panic", "on_lost is 'panic': say requeue, pause or fail"),
        ("on_broken", "panic", "on_broken is 'panic': say cancel, run or hold"),
        ("delay", "soon", "'soon' is no duration: pass seconds, or a timedelta"),
        ("delay", -1, "the duration -1 is negative"),
        ("not_before", "tomorrow", "'tomorrow' is no point in time: pass a datetime, or seconds since 1970"),
        ("backoff", 3, "backoff is 3: pass the first delay and the longest"),
        ("after", 3, "after is 3: pass a handle, an id, a name or tenure.After"),
        ("tags", 3, "tags is 3: pass a list of names"),
        ("needs", [3], r"needs is \[3\]: pass a list of names"),
    ],
)
def test_an_option_that_cannot_be_right_raises_where_it_is_written(option: str, value: Any, advice: str) -> None:
    options = {"queue": "q", option: value}
    with pytest.raises(tenure.BadSetting, match=advice):
        tenure.Submission(**options).said()
    with pytest.raises(tenure.BadSetting, match=advice):
        tenure.App().task(**options)(lambda: None)


def test_settings_of_other_requests_that_cannot_be_right(client: tenure.SyncClient) -> None:
    for request in (
        lambda: client.set_limit("tag", -1),
        lambda: client.set_share("share", -1),
        lambda: client.set_tag_rate("tag", "10/m", burst=-1),
        lambda: client.move("00000000-0000-0000-0000-000000000001", priority=1 << 40),
        lambda: client.watch(from_=-1),
        lambda: client.publish("topic", "x", ttl_ms=-1),
        lambda: client.subscribe(["topic"], gap_recovery_mode="replay"),  # type: ignore[arg-type]
        lambda: client.subscribe(["topic"], reconnection_policy=tenure.ReconnectionPolicy(jitter_factor=2)),
        lambda: client.subscribe(["topic"], reconnection_policy=3),  # type: ignore[arg-type]
    ):
        with pytest.raises(tenure.BadSetting, match="pass "):
            request()
    with pytest.raises(tenure.BadSetting, match="a task has no option 'retires': the options are"):
        tenure.App().task(retires=3)(lambda: None)


def test_unknown_tasks_and_wrong_states(client: tenure.SyncClient) -> None:
    with pytest.raises(tenure.UnknownTask):
        client.show("00000000-0000-0000-0000-000000000001")
    with pytest.raises(tenure.UnknownTask):
        client.find("no such name")
    task = client.submit("states", b"")
    with pytest.raises(tenure.WrongState) as wrong:
        client.release(task.id)
    assert wrong.value.code == "wrong-state" and wrong.value.facts["state"] == "ready"
    client.submit("states", b"1", name="taken")
    with pytest.raises(tenure.NameTaken):
        client.submit("states", b"2", name="taken", priority=3)
