"""A worker that shouts back: it registers, takes one task at a time, and is alive meanwhile.

    python worker.py 127.0.0.1:7171 shout --seconds 2
"""

import argparse
import random
import time

from tenure_native import Connection, Refused, value

HEARTBEAT = 1.0


def run(worker, task, attempt, body, seconds):
    """Computes for a while. Returns nothing if a client no longer wants the result."""
    until = time.monotonic() + seconds
    while True:
        left = until - time.monotonic()
        if left <= 0:
            return body.upper()
        told = worker.notice(timeout=min(left, HEARTBEAT))
        if told is None:
            worker.ask("heartbeat", held=[[task, attempt]])
            worker.ask("progress", task=task, attempt=attempt, percent=int(100 - 100 * max(left, 0) / seconds))
            continue
        kind, fields = told
        if kind in ("wanted", "stop") and fields["task"] == task:
            print(kind, fields.get("wanted") or fields.get("why"), flush=True)
            if kind == "wanted":
                worker.ask("confirm", task=task, attempt=attempt, wanted=fields["wanted"])
            return None


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("address")
    parser.add_argument("queue")
    parser.add_argument("--seconds", type=float, default=0.0)
    parser.add_argument("--name", default="python-worker")
    parser.add_argument("--tasks", type=int, default=0, help="leave after this many")
    arguments = parser.parse_args()
    worker = Connection(arguments.address, identity=arguments.name)
    worker.ask(
        "register",
        worker=arguments.name,
        instance=random.getrandbits(63),
        queues=[arguments.queue],
        heartbeat_ms=int(HEARTBEAT * 1000),
        lost_after_ms=int(3 * HEARTBEAT * 1000),
    )
    print("registered", flush=True)
    done = 0
    while not arguments.tasks or done < arguments.tasks:
        told = worker.notice(timeout=HEARTBEAT)
        if told is None:
            worker.ask("heartbeat", held=[])
            continue
        kind, fields = told
        if kind == "drain":
            break
        for row in fields["tasks"] if kind == "assign" else []:
            task, attempt, body = row[0], row[1], value(row, 2, b"")
            # A worker that is too late learns it here, before it does any work.
            if worker.ask("start", held=[[task, attempt]]).get("refused"):
                continue
            print("running", attempt, body.decode(), flush=True)
            if body == b"fail":
                worker.ask("fail", task=task, attempt=attempt, exit_code=3, message="asked to fail", is_final=True)
                done += 1
                continue
            result = run(worker, task, attempt, body, arguments.seconds)
            if result is not None:
                refused = worker.ask("complete", done=[[task, attempt, result]]).get("refused")
                print("stale" if refused else "completed", attempt, flush=True)
            done += 1
    try:
        worker.ask("leave")
    except Refused as no:
        print("not missed:", no.code, flush=True)


if __name__ == "__main__":
    main()
