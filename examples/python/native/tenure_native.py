"""The native protocol of Tenure in plain Python: frames of MessagePack, and requests that are answered by number.

Needs the package `msgpack`. Everything here follows from spec/native.md.
"""

import select
import socket
import struct
import time
from collections import deque

import msgpack


class Refused(Exception):
    """A "no" of the broker: it has a code that stays the same, and the facts that belong to it."""

    def __init__(self, facts):
        super().__init__(f"{facts['code']}: {facts['message']}")
        self.code, self.facts = facts["code"], facts


class Connection:
    """One connection to a broker. Notices that arrive while an answer is waited for are kept for `notice`."""

    def __init__(self, address, identity=None, namespace=None, key=None):
        host, _, port = address.rpartition(":")
        self.socket = socket.create_connection((host, int(port)), timeout=30)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.number, self.arrived, self.replies, self.notices = 0, bytearray(), {}, deque()
        hello = {"version": 1, "identity": identity, "namespace": namespace, "key": key, "software": "example in Python"}
        self.welcome = self.ask("hello", **hello)

    def send(self, kind, **fields):
        """Sends a request and returns its number, which its answers carry."""
        self.number += 1
        message = msgpack.packb([self.number, kind, fields])
        self.socket.sendall(struct.pack(">I", len(message)) + message)
        return self.number

    def ask(self, kind, **fields):
        """Sends a request and waits for its answer. The broker's "no" is raised."""
        return self.answer(self.send(kind, **fields))

    def answer(self, number, timeout=30):
        """The next answer to the request of this number."""
        deadline = time.monotonic() + timeout
        while not self.replies.get(number):
            self._receive(deadline - time.monotonic(), f"request {number} is not answered")
        kind, fields = self.replies[number].popleft()
        if not self.replies[number]:
            del self.replies[number]
        if kind == "refused":
            raise Refused(fields)
        return fields

    def notice(self, timeout=30):
        """The next notice, as its kind and its fields; nothing if none comes in time."""
        deadline = time.monotonic() + timeout
        while not self.notices:
            if deadline <= time.monotonic() or not self._wait(deadline - time.monotonic()):
                return None
            self._receive(0, "nothing came")
        return self.notices.popleft()

    def _wait(self, seconds):
        return bool(select.select([self.socket], [], [], max(seconds, 0))[0])

    def _receive(self, seconds, late):
        if not self._wait(seconds):
            raise TimeoutError(late)
        data = self.socket.recv(1 << 16)
        if not data:
            raise ConnectionError("the broker closed the connection")
        self.arrived += data
        while len(self.arrived) >= 4:
            (length,) = struct.unpack_from(">I", self.arrived)
            if len(self.arrived) < 4 + length:
                return
            number, kind, *fields = msgpack.unpackb(self.arrived[4 : 4 + length])
            del self.arrived[: 4 + length]
            self._take(number, kind, fields[0] if fields else {})

    def _take(self, number, kind, fields):
        if number:
            self.replies.setdefault(number, deque()).append((kind, fields))
        elif kind in ("refused", "bye"):
            raise Refused(fields)
        else:
            self.notices.append((kind, fields))


def value(row, index, default=None):
    """A value of a row. Rows may be shorter than their table says: what is missing has its default."""
    return row[index] if index < len(row) and row[index] is not None else default
