"""The older message dialect of Tenure in plain Python: frames, tagged messages and the handshake.

Needs the package `msgpack`. Everything here follows from spec/xmessage.md.
"""

import socket
import struct
import threading

import msgpack


class Connection:
    """One connection to a broker, after its handshake. `send` may be called from any thread."""

    def __init__(self, address, role, **more):
        host, _, port = address.rpartition(":")
        self.socket = socket.create_connection((host, int(port)), timeout=30)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.lock = threading.Lock()
        self.expect("HandShake", "Who you are?")
        more = {name: value for name, value in more.items() if value is not None}
        if more:
            self.send("HandShakeWith", {"role": role, **more})
        else:
            self.send("HandShake", role)
        self.expect("HandShake", "Go")
        # From here on silence means something; see `receive`.
        self.socket.settimeout(20)

    def send(self, name, *fields):
        """Sends one message. A message without fields is its name; several fields are a list."""
        if not fields:
            message = name
        else:
            message = {name: fields[0] if len(fields) == 1 else list(fields)}
        packed = msgpack.packb(message)
        with self.lock:
            self.socket.sendall(struct.pack(">I", len(packed)) + packed)

    def receive(self):
        """The next message as its name and its value. A broker that says nothing for 20 s is gone."""
        (length,) = struct.unpack(">I", self._exactly(4))
        message = msgpack.unpackb(self._exactly(length))
        if isinstance(message, str):
            return message, None
        ((name, value),) = message.items()
        return name, value

    def expect(self, name, value):
        got = self.receive()
        if got != (name, value):
            raise ConnectionError(f"the broker said {got[1]}")

    def close(self):
        self.socket.close()

    def _exactly(self, count):
        parts = bytearray()
        while len(parts) < count:
            part = self.socket.recv(count - len(parts))
            if not part:
                raise ConnectionError("the broker closed the connection")
            parts += part
        return bytes(parts)
