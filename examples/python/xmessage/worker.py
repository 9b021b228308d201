"""A worker: takes tasks, runs each for a while in a thread of its own, and reports what became of it.

    python worker.py 127.0.0.1:5677 --slots 2 --type sync

A record id `fail:N` fails with exit code N; anything else succeeds.
"""

import argparse
import threading
import uuid

from dialect import Connection

BEAT_SECONDS = 2


class Worker:
    def __init__(self, args):
        self.broker = Connection(
            args.broker, "worker", key=args.key, name=args.name, slots=args.slots, task_types=args.task_types
        )
        self.seconds, self.left = args.seconds, args.tasks
        self.stops = {}
        self.over = threading.Event()

    def run(self):
        print("ready", flush=True)
        threading.Thread(target=self.beat, daemon=True).start()
        while self.left != 0 or self.stops:
            name, value = self.broker.receive()
            if name == "TaskLaunch":
                task, record = value
                self.stops[task] = threading.Event()
                threading.Thread(target=self.work, args=(task, record), daemon=True).start()
            elif name == "WorkerOp" and "KillTask" in value[0]:
                stop = self.stops.get(value[1])
                if stop:
                    stop.set()
            elif name == "BulkMessage":
                print("broker:", value, flush=True)

    def work(self, task, record):
        print("running", uuid.UUID(bytes=task), record, flush=True)
        self.broker.send("TaskStateChange", task, "Submit", "Run")
        if self.stops[task].wait(self.seconds):
            code = -1
        elif record.startswith("fail:"):
            code = int(record[len("fail:") :])
        else:
            code = 0
        print("ended", uuid.UUID(bytes=task), code, flush=True)
        del self.stops[task]
        self.broker.send("TaskStateChange", task, "Run", {"Terminated": code})
        self.left -= 1
        if self.left == 0:
            self.over.set()
            self.broker.send("Over")

    def beat(self):
        while not self.over.wait(BEAT_SECONDS):
            self.broker.send("HeartBeat", 0)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("broker")
    parser.add_argument("--key")
    parser.add_argument("--name")
    parser.add_argument("--slots", type=int)
    parser.add_argument("--type", dest="task_types", action="append")
    parser.add_argument("--seconds", type=float, default=0.1, help="how long each task takes")
    parser.add_argument("--tasks", type=int, default=-1, help="leave after this many")
    Worker(parser.parse_args()).run()


if __name__ == "__main__":
    main()
