"""A client of the _PL dialect: submits a batch, prints every notice, waits until all calls are finished.

    python pl_client.py Tools/Count 5 7 9
    python pl_client.py Tools/Count 5 --identity lab --leave       submits and goes away
    python pl_client.py --identity lab --after 0                   what happened to my jobs since?
"""

import argparse
import collections
import sys
import time

import zmq

import cbor

HEADER = b"MDPC01_PL"


class Client:
    """An asynchronous client: replies and notices may come at any time."""

    def __init__(self, endpoint, identity=None):
        self.socket = zmq.Context.instance().socket(zmq.DEALER)
        if identity:
            self.socket.identity = identity.encode()
        self.socket.linger = 1000
        self.socket.connect(endpoint)
        self.replies = collections.deque()

    def send(self, service, *body):
        self.socket.send_multipart([b"", HEADER, service.encode(), *body])

    def submit(self, path, calls):
        """Submits a batch. The names of the parameters travel once, the calls carry numbers for them."""
        names = sorted({name for call in calls for name in call})
        numbers = {name: number for number, name in enumerate(names, 1)}
        table = {number: name for name, number in numbers.items()}
        coded = [{numbers[name]: value for name, value in call.items()} for call in calls]
        self.send(path, cbor.dumps(table), *map(cbor.dumps, coded))

    def receive(self, seconds):
        """(service, frames) of the next message, or None."""
        return self.replies.popleft() if self.replies else self.hear(seconds)

    def hear(self, seconds):
        if not self.socket.poll(int(seconds * 1000)):
            return None
        _empty, _header, service, *frames = self.socket.recv_multipart()
        return service.decode(), frames

    def ask(self, service, *body, seconds=5, on_notice=print):
        """The answer of the broker itself. Notices that come in between are printed, replies are kept for later."""
        self.send(service, *body)
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            message = self.hear(left)
            if message and message[0] == service:
                return message[1]
            if message and (news := notice(message[1])):
                on_notice(news)
            elif message:
                self.replies.append(message)
        return None


def notice(frames):
    """The map of a notice, or None if this is something else."""
    try:
        value = cbor.loads(frames[0])
    except (IndexError, ValueError):
        return None
    return value if isinstance(value, dict) and "error" in value else None


def tell(news):
    for job in news.get("jobs", [news]):
        print(
            news["error"], job.get("job_id", "-"), f"attempt {job.get('attempt', '-')}", job.get("next", "-"),
            f"event {job.get('event', '-')}:", job["message"], flush=True,
        )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("path", nargs="?")
    parser.add_argument("numbers", nargs="*", type=int)
    parser.add_argument("--broker", default="tcp://127.0.0.1:5555")
    parser.add_argument("--identity")
    parser.add_argument("--leave", action="store_true", help="do not wait for the end")
    parser.add_argument("--after", type=int, help="only ask what happened after this event")
    parser.add_argument("--seconds", type=float, default=60, help="give up after this long")
    arguments = parser.parse_args()
    client = Client(arguments.broker, arguments.identity)
    if arguments.after is not None:
        answer = client.ask("mmi.notify", str(arguments.after).encode(), on_notice=tell)
        if not answer:
            sys.exit("no answer")
        code, latest, *missed = answer
        for frame in missed:
            tell(cbor.loads(frame))
        print(code.decode(), "latest event", latest.decode())
        return
    calls = [
        {"Number": number, "JobID": f"job-{number}", "CommitName": "example"} for number in arguments.numbers
    ]
    client.submit(arguments.path, calls)
    if arguments.leave:
        client.ask("mmi.status", on_notice=tell)
        return
    finished, until = 0, time.monotonic() + arguments.seconds
    while (finished < len(calls) or client.replies) and time.monotonic() < until:
        message = client.receive(0.2)
        if message and (news := notice(message[1])):
            tell(news)
        elif message:
            print("reply", *(frame.decode(errors="replace") for frame in message[1]), flush=True)
        else:
            status = client.ask("mmi.status", on_notice=tell)
            if status:
                finished += int(status[0])
    print(f"{finished} of {len(calls)} finished")
    sys.exit(finished < len(calls))


if __name__ == "__main__":
    main()
