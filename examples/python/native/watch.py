"""Follows events, and goes on where it was when it is started again with the number it printed last.

    python watch.py 127.0.0.1:7171 shout --from 1 --until completed
"""

import argparse

from tenure_native import Connection, value

parser = argparse.ArgumentParser()
parser.add_argument("address")
parser.add_argument("queue")
parser.add_argument("--from", type=int, dest="first")
parser.add_argument("--until", help="end with the first event of this kind")
arguments = parser.parse_args()

watcher = Connection(arguments.address)
watch = watcher.send("watch", queue=arguments.queue, **{"from": arguments.first})
watcher.answer(watch)
print("watching", flush=True)
over = False
while not over:
    told = watcher.notice()
    if told is None:
        continue
    kind, fields = told
    if kind == "gap":
        print("gap", fields["from"], fields["to"], flush=True)
    elif kind == "live":
        print("live", fields["next"], flush=True)
    for event in fields.get("events", []):
        print("event", event[0], event[2], value(event, 7, "-"), flush=True)
        if event[2] == arguments.until:
            over = True
            break
    if over:
        watcher.ask("unwatch", number=watch)
