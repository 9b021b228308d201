"""Topics: a subscriber that misses nothing while the broker is away, as far as the broker keeps it.

python topics.py
"""

from __future__ import annotations

import tenure


def main() -> None:
    client = tenure.SyncClient(
        reconnection_policy=tenure.ReconnectionPolicy(initial_delay_ms=200, max_delay_ms=5_000),
        gap_recovery_mode=tenure.GapRecoveryMode.REPLAY_BUFFER,
    )
    client.on_connection_state_change(lambda state, error: print("connection:", state.value, error or ""))
    client.on_gap_detected(lambda expected, actual, topic: print(f"gap: {topic} {expected} to {actual - 1}"))
    with client, client.subscribe(["sensor.*"]) as messages:
        for reading in ("21.5", "21.6", "21.7"):
            client.publish("sensor.kitchen", reading, ttl_ms=60_000, retain=True)
        for message in messages:
            print(f"{message.topic} {message.sequence_number}: {message.payload_as_string()}")
            if message.payload == b"21.7":
                break


if __name__ == "__main__":
    main()
