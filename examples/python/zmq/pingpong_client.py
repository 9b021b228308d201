"""A client of the READY / PING / PONG door: sends work, waits for the result.

    python pingpong_client.py "count the cells"
"""

import argparse
import sys

import zmq


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("work", nargs="+")
    parser.add_argument("--broker", default="tcp://127.0.0.1:6001")
    parser.add_argument("--seconds", type=float, default=60, help="give up after this long")
    arguments = parser.parse_args()
    socket = zmq.Context.instance().socket(zmq.REQ)
    socket.linger = 0
    socket.connect(arguments.broker)
    for work in arguments.work:
        socket.send(work.encode())
        if not socket.poll(int(arguments.seconds * 1000)):
            sys.exit("no result")
        print(socket.recv().decode(), flush=True)


if __name__ == "__main__":
    main()
