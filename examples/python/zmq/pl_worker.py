"""A worker of the _PL dialect: several threads, heartbeats with figures while it computes.

    python pl_worker.py Tools/Count Tools/Sum --threads 4 --seconds 10
"""

import argparse
import json
import queue
import threading
import time

import zmq

import cbor

HEADER = b"MDPW01_PL"
READY, REQUEST, REPLY, HEARTBEAT, DISCONNECT, PROCESSES, FINISHED = (bytes([byte]) for byte in range(1, 8))


class Worker:
    def __init__(self, arguments):
        self.arguments = arguments
        self.done = queue.Queue()
        self.busy = 0
        self.socket = None
        self.connect()

    def connect(self):
        if self.socket:
            self.socket.close(linger=0)
        self.socket = zmq.Context.instance().socket(zmq.DEALER)
        if self.arguments.identity:
            self.socket.identity = self.arguments.identity.encode()
        self.socket.connect(self.arguments.broker)
        self.heard_at = time.monotonic()
        self.say(READY, b"processes")
        self.register()

    def register(self):
        plugins = [
            json.dumps({"Path": path, "PluginVersion": "v1 2024-01-01 00:00:00 +0000"}).encode()
            for path in self.arguments.paths
        ]
        self.say(PROCESSES, b"%d" % self.arguments.threads, self.arguments.name.encode(), *plugins)

    def say(self, *frames):
        self.socket.send_multipart([b"", HEADER, *frames])
        self.beat_at = time.monotonic() + self.arguments.heartbeat

    def beat(self):
        free = self.arguments.threads - self.busy
        self.say(HEARTBEAT, b"%d" % free, b"64000000000", b"16000000000", b"250000000", b"12.5", b"3.5")

    def run(self):
        while True:
            if self.socket.poll(50):
                self.heard_at = time.monotonic()
                _empty, header, command, *rest = self.socket.recv_multipart()
                if header == HEADER:
                    self.handle(command, rest)
            elif time.monotonic() > self.heard_at + 3 * self.arguments.heartbeat:
                self.connect()
            while not self.done.empty():
                parameters, result = self.done.get()
                self.busy -= 1
                self.say(READY, parameters["Client"].encode(), b"%d" % parameters["ThreadID"], result)
                print("done", parameters["JobID"], flush=True)
            if time.monotonic() >= self.beat_at:
                self.beat()

    def handle(self, command, rest):
        if command == REQUEST:
            path, parameters = rest
            parameters = cbor.loads(parameters)
            self.busy += 1
            print("working", parameters["JobID"], "attempt", parameters["Attempt"], flush=True)
            threading.Thread(target=self.compute, args=(parameters,), daemon=True).start()
        elif command == PROCESSES:
            self.register()
        elif command == FINISHED:
            print("finished", rest[0].decode(), flush=True)
        elif command == DISCONNECT:
            self.connect()

    def compute(self, parameters):
        time.sleep(self.arguments.seconds)
        number = parameters.get("Number", 0)
        self.done.put((parameters, cbor.dumps({"Square": number * number})))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("paths", nargs="+")
    parser.add_argument("--broker", default="tcp://127.0.0.1:5555")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--name", default="example")
    parser.add_argument("--identity")
    parser.add_argument("--seconds", type=float, default=0, help="how long a call takes")
    parser.add_argument("--heartbeat", type=float, default=2.5)
    worker = Worker(parser.parse_args())
    print("ready", flush=True)
    worker.run()


if __name__ == "__main__":
    main()
