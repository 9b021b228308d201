"""A Majordomo worker (MDP/0.1). One thread: while it computes it neither sends nor reads, as most workers do.

    python mdp_worker.py echo                 answers with the request in capital letters
    python mdp_worker.py echo --seconds 30    takes its time
"""

import argparse
import time

import zmq

HEADER = b"MDPW01"
READY, REQUEST, REPLY, HEARTBEAT, DISCONNECT = b"\1", b"\2", b"\3", b"\4", b"\5"


class Worker:
    """Serves one service. Opens a new socket when the broker says so, or says nothing for too long."""

    def __init__(self, endpoint, service, heartbeat=2.5, liveness=3):
        self.endpoint, self.service = endpoint, service.encode()
        self.heartbeat, self.liveness = heartbeat, liveness
        self.socket = None
        self.connect()

    def connect(self):
        if self.socket:
            self.socket.close(linger=0)
        self.socket = zmq.Context.instance().socket(zmq.DEALER)
        self.socket.connect(self.endpoint)
        self.say(READY, self.service)
        self.missed = 0

    def say(self, *frames):
        self.socket.send_multipart([b"", HEADER, *frames])
        self.beat_at = time.monotonic() + self.heartbeat

    def requests(self):
        """Yields (address, body) for every request, without end."""
        while True:
            if self.socket.poll(int(self.heartbeat * 1000)):
                self.missed = 0
                _empty, header, command, *rest = self.socket.recv_multipart()
                if header == HEADER and command == REQUEST:
                    address, _empty, *body = rest
                    yield address, body
                elif header == HEADER and command == DISCONNECT:
                    self.connect()
            else:
                self.missed += 1
                if self.missed >= self.liveness:
                    self.connect()
            if time.monotonic() >= self.beat_at:
                self.say(HEARTBEAT)

    def reply(self, address, body):
        self.say(REPLY, address, b"", *body)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("service")
    parser.add_argument("--broker", default="tcp://127.0.0.1:5555")
    parser.add_argument("--seconds", type=float, default=0, help="how long a request takes")
    parser.add_argument("--heartbeat", type=float, default=2.5)
    arguments = parser.parse_args()
    worker = Worker(arguments.broker, arguments.service, arguments.heartbeat)
    print("ready", flush=True)
    for address, body in worker.requests():
        print("working", address.decode(), flush=True)
        time.sleep(arguments.seconds)
        worker.reply(address, [frame.upper() for frame in body])
        print("done", address.decode(), flush=True)


if __name__ == "__main__":
    main()
