"""Calls, broadcasts and topics."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator
from typing import TypeVar

import pytest
import tenure
from conftest import LONG, until
from tenure import ConnectionState, GapRecoveryMode, ReconnectionPolicy, SyncClient
from tenure.testing import Broker

T = TypeVar("T")


def test_a_call_is_answered_or_fails_or_has_no_receiver_at_once(client: SyncClient) -> None:
    listener = client.listen(["calculator"])

    def serve() -> None:
        for call in listener:
            if call.body == b"crash":
                call.error("cannot")
            elif call.body == b"give up":
                call.cancel()
            else:
                call.pending()
                call.answer(call.body + b"!")

    thread = threading.Thread(target=serve)
    thread.start()
    assert client.call("calculator", "hello", timeout=LONG) == b"hello!"
    with pytest.raises(tenure.CallFailed, match="cannot") as failed:
        client.call("calculator", "crash", timeout=LONG)
    assert failed.value.body == b"cannot"
    with pytest.raises(tenure.CallCancelled):
        client.call("calculator", "give up", timeout=LONG)
    with pytest.raises(tenure.NoListener):
        client.call("absent", "hello")
    listener.close()
    thread.join(LONG)
    assert not thread.is_alive()
    until("the address is free", lambda: _is_address_free(client, "calculator"))


def _is_address_free(client: SyncClient, address: str) -> bool:
    try:
        client.call(address, b"", timeout=0.2)
    except tenure.NoListener:
        return True
    except tenure.TenureError:
        return False
    return False


def test_a_call_that_is_not_answered_in_time_is_too_late(client: SyncClient) -> None:
    with client.listen(["slow"]), pytest.raises(tenure.TooLate):
        client.call("slow", b"", timeout=0.05)


def test_broadcasts_are_heard_by_subject_and_by_the_sender_itself(client: SyncClient) -> None:
    with client.receive_broadcasts(subject="weather") as weather, client.receive_broadcasts() as everything:
        assert client.broadcast("storm", subject="news", sender="ada") == 1
        assert client.broadcast("rain", subject="weather", sender="ada", correlation="7") == 1
        heard = weather.next(LONG)
        assert heard == tenure.Broadcast(b"rain", "weather", "ada", "7")
        both = [everything.next(LONG), everything.next(LONG)]
        assert [one.subject for one in both if isinstance(one, tenure.Broadcast)] == ["news", "weather"]


def test_messages_come_in_order_and_retained_ones_first(client: SyncClient) -> None:
    client.publish("plan.today", "rest", retain=True)
    with client.subscribe(["plan.*"], retained=True) as plans:
        for number in range(300):
            client.publish("plan.tomorrow", str(number), ttl_ms=60_000)
        first = plans.next(LONG)
        assert first is not None and (first.kind, first.payload_as_string()) == ("retained", "rest")
        told = [plans.next(LONG) for _ in range(300)]
        assert [int(one.payload) for one in told if one is not None] == list(range(300))
        numbers = [one.sequence_number for one in told if one is not None]
        assert numbers == list(range(1, 301)) and plans.last_sequence_number == 300
    assert {topic.topic for topic in client.topics("plan.>")} == {"plan.today", "plan.tomorrow"}


def test_a_request_is_answered_through_a_topic(client: SyncClient) -> None:
    with client.subscribe(["clock"]) as questions:

        def answer() -> None:
            question = next(questions)
            assert question.reply_to is not None
            client.publish(question.reply_to, "noon")

        thread = threading.Thread(target=answer)
        thread.start()
        assert client.request("clock", "what time is it?", timeout=LONG).payload == b"noon"
        thread.join(LONG)


def test_a_subscription_replays_what_it_missed_while_the_broker_was_gone(
    tenure_broker: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    policy = ReconnectionPolicy(initial_delay_ms=50, max_delay_ms=200)
    with tenure_broker.client(reconnection_policy=policy, gap_recovery_mode=GapRecoveryMode.REPLAY_BUFFER) as client:
        states: list[ConnectionState] = []
        client.on_connection_state_change(lambda state, error: states.append(state))
        with client.subscribe(["sensor"]) as sensor:
            client.publish("sensor", "1")
            first = sensor.next(LONG)
            assert first is not None and first.payload == b"1"
            tenure_broker.restart()
            seen: list[bytes] = []

            def follow() -> None:
                while b"last" not in seen:
                    seen.append(next(sensor).payload)

            thread = threading.Thread(target=follow)
            thread.start()
            until(
                "it is back", lambda: ConnectionState.RECONNECTING in states and states[-1] is ConnectionState.CONNECTED
            )
            client.publish("sensor", "last")
            thread.join(LONG)
            assert not thread.is_alive() and seen[-1] == b"last"
    retries = [vars(record) for record in caplog.records if record.message == "the connection is tried again"]
    assert retries and retries[0]["topics"] == ["sensor"] and retries[0]["last_sequence_number"] == 1
    assert (retries[0]["attempt"], retries[0]["delay_ms"]) == (1, 50) and retries[0]["subscription_id"]


def test_a_subscription_logs_its_messages_and_how_it_failed(
    tenure_broker: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    policy = ReconnectionPolicy(max_retries=1, initial_delay_ms=10, max_delay_ms=10)
    with caplog.at_level("DEBUG", "tenure.subscription"), tenure_broker.client(reconnection_policy=policy) as client:
        subscription = client.subscribe(["sensor"])
        client.publish("sensor", "1")
        assert subscription.next(LONG) is not None
        tenure_broker.kill()
        with pytest.raises(tenure.Unreachable):
            subscription.next(LONG)
    levels = {record.message: (record.levelname, vars(record)) for record in caplog.records}
    level, fields = levels["a message was received"]
    assert (level, fields["topic"], fields["last_sequence_number"]) == ("DEBUG", "sensor", 1)
    level, fields = levels["the subscription has failed"]
    assert (level, fields["topics"], fields["subscription_id"]) == ("ERROR", ["sensor"], subscription.id)
    assert "refused" in fields["error"]


def test_the_callback_receives_a_gap(tenure_broker: Broker) -> None:
    policy = ReconnectionPolicy(initial_delay_ms=300, max_delay_ms=300)
    with tenure_broker.client(reconnection_policy=policy) as client, tenure_broker.client() as publisher:
        gaps: list[tuple[int, int, str]] = []
        client.on_gap_detected(lambda expected, actual, topic: gaps.append((expected, actual, topic)))
        # The queue of this subscription holds two messages, so the broker drops the others meanwhile.
        with client.subscribe(["narrow"], queue=(2, "drop-oldest")) as narrow:
            payload = b"x" * 100_000
            for _ in range(200):
                publisher.publish("narrow", payload)
            publisher.publish("narrow", "last")
            while (message := narrow.next(LONG)) is not None and message.payload != b"last":
                pass
            assert message is not None and message.payload == b"last"
            assert gaps and all(topic == "narrow" and expected < actual for expected, actual, topic in gaps)
            assert narrow.missed_messages == sum(actual - expected for expected, actual, _ in gaps)


def test_the_same_for_programs_that_await(shared_broker: Broker) -> None:
    async def main() -> None:
        async with shared_broker.async_client() as client:
            listener = await client.listen(["async-calculator"])

            async def serve() -> None:
                async for call in listener:
                    await call.answer(call.body * 2)

            serving = asyncio.ensure_future(serve())
            answers = await asyncio.gather(*(client.call("async-calculator", str(n), LONG) for n in range(100)))
            assert answers == [str(n).encode() * 2 for n in range(100)]
            listener.close()
            await asyncio.wait_for(serving, LONG)
            async with await client.receive_broadcasts("async-news") as receiver:
                assert await client.broadcast("x", subject="async-news") == 1
                assert isinstance(await receiver.__anext__(), tenure.Broadcast)
            async with await client.subscribe(["async-topic"]) as topic:
                await client.publish("async-topic", "1")
                assert (await topic.__anext__()).payload == b"1"
            async with await client.watch(queue="async-watch") as watch:
                task = await client.submit("async-watch", b"")
                event = await watch.__anext__()
                assert isinstance(event, tenure.Event) and event.task == task.id

    asyncio.run(asyncio.wait_for(main(), LONG))


def test_nothing_is_lost_if_a_wait_is_cancelled(shared_broker: Broker) -> None:
    async def take(stream: AsyncIterator[T], count: int) -> list[T]:
        taken: list[T] = []
        while len(taken) < count:
            waiting = asyncio.ensure_future(stream.__anext__())
            # Much too short, so that it is cancelled at any moment.
            await asyncio.wait({waiting}, timeout=0.001)
            waiting.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                taken.append(await waiting)
        return taken

    async def main() -> None:
        async with shared_broker.async_client() as client:
            messages = await client.subscribe(["hurried"])
            heard = await client.receive_broadcasts("hurried")

            async def send() -> None:
                for number in range(200):
                    await client.publish("hurried", str(number))
                    await client.broadcast(str(number), subject="hurried")

            sending = asyncio.ensure_future(send())
            assert [int(message.payload) for message in await take(messages, 200)] == list(range(200))
            told = await take(heard, 200)
            assert [int(one.body) for one in told if isinstance(one, tenure.Broadcast)] == list(range(200))
            await sending

    asyncio.run(asyncio.wait_for(main(), LONG))
