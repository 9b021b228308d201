"""A Majordomo client (MDP/0.1) on a REQ socket: asks, waits, and asks again on a new socket if nothing comes.

    python mdp_client.py echo hello
    python mdp_client.py mmi.service echo
    python mdp_client.py echo hello --count 100
"""

import argparse
import sys

import zmq

HEADER = b"MDPC01"


class Client:
    """Sends requests one after the other. A broker that does not answer in time is asked again."""

    def __init__(self, endpoint, timeout=2.5, retries=3):
        self.endpoint, self.timeout, self.retries = endpoint, timeout, retries
        self.socket = None
        self.connect()

    def connect(self):
        if self.socket:
            self.socket.close(linger=0)
        self.socket = zmq.Context.instance().socket(zmq.REQ)
        self.socket.connect(self.endpoint)

    def request(self, service, *body):
        """The frames of the reply, or None if no worker answered."""
        for _ in range(self.retries):
            self.socket.send_multipart([HEADER, service.encode(), *body])
            if self.socket.poll(int(self.timeout * 1000)):
                header, replied, *reply = self.socket.recv_multipart()
                if header == HEADER and replied == service.encode():
                    return reply
            self.connect()
        return None


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("service")
    parser.add_argument("body", nargs="*", default=[""])
    parser.add_argument("--broker", default="tcp://127.0.0.1:5555")
    parser.add_argument("--timeout", type=float, default=2.5, help="seconds to wait before asking again")
    parser.add_argument("--retries", type=int, default=3)
    parser.add_argument("--count", type=int, help="send this many requests, each with its number at the end")
    arguments = parser.parse_args()
    client = Client(arguments.broker, arguments.timeout, arguments.retries)
    for number in range(arguments.count or 1):
        body = [part.encode() for part in arguments.body]
        if arguments.count:
            body.append(b"%d" % number)
        reply = client.request(arguments.service, *body)
        if reply is None:
            sys.exit("no reply")
        print(*(frame.decode(errors="replace") for frame in reply), sep="\n", flush=True)


if __name__ == "__main__":
    main()
