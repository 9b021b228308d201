"""Publishes to topics, follows them, asks and answers on them.

    python topics.py 127.0.0.1:7171 sub 'sensor.*' --id ear --count 3
    python topics.py 127.0.0.1:7171 pub sensor.kitchen 21.5 22.0
    python topics.py 127.0.0.1:7171 answer time noon
    python topics.py 127.0.0.1:7171 ask time '?'
"""

import argparse

from tenure_native import Connection, Refused, value

parser = argparse.ArgumentParser()
parser.add_argument("address")
parser.add_argument("verb", choices=["pub", "sub", "ask", "answer"])
parser.add_argument("topic")
parser.add_argument("payloads", nargs="*")
parser.add_argument("--id", help="a name to come back to")
parser.add_argument("--count", type=int, default=0, help="end after this many messages")
arguments = parser.parse_args()
peer = Connection(arguments.address, identity=f"python-{arguments.verb}")


def messages(**subscribe):
    """Subscribes, and yields messages as rows; tells what will not come."""
    number = peer.send("subscribe", topics=[arguments.topic], **subscribe)
    subscribed = peer.answer(number)
    print("subscribed", subscribed["id"], "missed", subscribed.get("missed", "unknown"), flush=True)
    while True:
        told = peer.notice()
        if told is None or told[1].get("subscription") != number:
            continue
        kind, fields = told
        if kind == "messages":
            for row in fields["messages"]:
                yield fields.get("kind", "live"), row
                # What is acknowledged does not come again to the next one with this id.
                peer.ask("acknowledge", number=number, last_seen=[[row[0], row[1]]])
        elif kind == "topic-gap":
            print("gap", fields["topic"], fields["first_missed"], fields["last_missed"], flush=True)
        elif kind == "subscription-ended":
            return


if arguments.verb == "pub":
    rows = [[arguments.topic, payload.encode()] for payload in arguments.payloads]
    for entry in peer.ask("publish", messages=rows)["messages"]:
        if isinstance(entry, dict):
            print("refused", entry["code"], flush=True)
        else:
            print("published", entry[0], "receivers", value(entry, 1, 0), flush=True)
elif arguments.verb == "sub":
    # With a name of its own it goes on where it was, and hears first what it missed.
    seen = 0
    for kind, row in messages(**({"id": arguments.id, "recovery": "replay"} if arguments.id else {})):
        print(kind, row[0], row[1], value(row, 2, b"").decode(), flush=True)
        seen += 1
        if seen == arguments.count:
            break
elif arguments.verb == "answer":
    for _, row in messages(group="answering"):
        reply_to = value(row, 8)
        if reply_to:
            peer.ask("publish", messages=[[reply_to, arguments.payloads[0].encode()]])
else:
    try:
        print("answer", peer.ask("request", topic=arguments.topic, payload=b"?")["payload"].decode(), flush=True)
    except Refused as no:
        print("refused", no.code, flush=True)
