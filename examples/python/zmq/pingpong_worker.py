"""A worker of the READY / PING / PONG door. While it works it does not ping.

    python pingpong_worker.py --seconds 10
"""

import argparse
import time

import zmq

PING_EVERY = 1.0
BROKER_TIMEOUT = 1.0
N_TIMEOUTS = 3


def connect(endpoint):
    socket = zmq.Context.instance().socket(zmq.DEALER)
    socket.connect(endpoint)
    socket.send_multipart([b"", b"READY"])
    return socket


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--broker", default="tcp://127.0.0.1:6002")
    parser.add_argument("--seconds", type=float, default=0, help="how long a job takes")
    parser.add_argument("--old-form", action="store_true", help="send results in the older form")
    arguments = parser.parse_args()
    socket = connect(arguments.broker)
    print("ready", flush=True)
    timeouts, ping_at = 0, time.monotonic() + PING_EVERY
    while True:
        wait = min(BROKER_TIMEOUT, max(0.0, ping_at - time.monotonic()))
        if socket.poll(int(wait * 1000)):
            timeouts = 0
            _empty, *body = socket.recv_multipart()
            if body != [b"PONG"]:
                print("working", flush=True)
                time.sleep(arguments.seconds)
                result = [frame.upper() for frame in body]
                prefix = [b"JOB COMPLETE", b"client", b""] if arguments.old_form else []
                socket.send_multipart([b"", *prefix, *result])
                print("done", flush=True)
        if time.monotonic() >= ping_at:
            timeouts += 1
            if timeouts > N_TIMEOUTS:
                socket.close(linger=0)
                socket, timeouts = connect(arguments.broker), 0
            socket.send_multipart([b"", b"PING"])
            ping_at = time.monotonic() + PING_EVERY


if __name__ == "__main__":
    main()
