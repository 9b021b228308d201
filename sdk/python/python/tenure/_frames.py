"""Frames between a worker and its processes: a length and MessagePack, over a socket pair."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from typing import Any

import msgpack

_LENGTH = struct.Struct(">I")
#: The largest frame; a body or result that the broker takes is far smaller.
FRAME_BYTES_MAX = 1 << 30


class Frames:
    """One end of a socket pair. Any thread may send, one receives."""

    def __init__(self, end: socket.socket) -> None:
        self._end = end
        self._sending = threading.Lock()
        self._received = bytearray()

    def send(self, *frame: Any) -> None:
        """Sends a frame. Raises ``OSError`` if the peer has closed the connection."""
        data = msgpack.packb(frame)
        with self._sending:
            self._end.sendall(_LENGTH.pack(len(data)) + data)

    def receive(self) -> list[Any]:
        """The next frame. Raises ``EOFError`` if the peer has closed the connection."""
        length = _LENGTH.unpack(self._read(_LENGTH.size))[0]
        if length > FRAME_BYTES_MAX:
            raise EOFError("the peer sent an invalid frame")
        frame: list[Any] = msgpack.unpackb(self._read(length))
        return frame

    def close(self) -> None:
        """Ends this side; a thread that receives stops."""
        with contextlib.suppress(OSError):
            self._end.shutdown(socket.SHUT_RDWR)
        self._end.close()

    def _read(self, length: int) -> bytes:
        while len(self._received) < length:
            try:
                more = self._end.recv(1 << 16)
            except OSError:
                more = b""
            if not more:
                raise EOFError("the peer has closed the connection")
            self._received += more
        data = bytes(self._received[:length])
        del self._received[:length]
        return data
