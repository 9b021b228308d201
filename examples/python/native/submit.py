"""Submits one task for each body, waits until they have ended, and prints their results.

    python submit.py 127.0.0.1:7171 shout hello world
"""

import sys
import uuid

from tenure_native import Connection, value

address, queue, *bodies = sys.argv[1:]
client = Connection(address, identity="python")
# Ids of our own: should the connection break here, the same can be sent again and is not done twice.
rows = [[uuid.uuid4().bytes, body.encode()] for body in bodies]
submitted = client.ask("submit", terms=[{"queue": queue, "retries": 1}], tasks=rows)["tasks"]
for entry in submitted:
    if isinstance(entry, dict):
        print("refused", entry["code"], entry["message"], flush=True)
    else:
        print("submitted", uuid.UUID(bytes=entry[0]), entry[1], flush=True)
tasks = [entry[0] for entry in submitted if isinstance(entry, list)]
for ended in client.ask("wait", tasks=tasks, results=True)["tasks"]:
    print("ended", uuid.UUID(bytes=ended[0]), ended[1], value(ended, 7, b"").decode(), flush=True)
