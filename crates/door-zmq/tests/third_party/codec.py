"""Talks to an echoing ROUTER through libzmq: argv is the port and the name of a story."""

import sys
import time

import zmq

TIMEOUT_MS = 5000


def connect(kind, port, **options):
    socket = zmq.Context.instance().socket(kind)
    socket.linger = 0
    socket.rcvtimeo = socket.sndtimeo = TIMEOUT_MS
    for name, value in options.items():
        setattr(socket, name, value)
    socket.connect(f"tcp://127.0.0.1:{port}")
    return socket


def req(port):
    """A REQ socket asks three times; its empty frame comes back unseen."""
    socket = connect(zmq.REQ, port)
    for number in range(3):
        socket.send_multipart([b"MDPC01", b"echo", b"%d" % number])
        assert socket.recv_multipart() == [b"MDPC01", b"echo", b"%d" % number]


def correlated(port):
    """A REQ socket that correlates puts an identifier in front and wants it back."""
    socket = connect(zmq.REQ, port, req_correlate=1, req_relaxed=1)
    socket.send(b"first")
    socket.send(b"second")
    assert socket.recv() == b"second"


def dealer(port):
    """A DEALER sends many messages of many shapes without waiting."""
    socket = connect(zmq.DEALER, port, identity=b"worker-1")
    shapes = [[b""], [b"", b"x"], [b"a" * 255], [b"a" * 256, b""], [bytes(1 << 20)], [b""] * 100]
    for _ in range(20):
        for shape in shapes:
            socket.send_multipart(shape)
    for _ in range(20):
        for shape in shapes:
            assert socket.recv_multipart() == shape


def plain(port):
    """Right credentials get in."""
    socket = connect(zmq.DEALER, port, plain_username=b"alice", plain_password=b"secret")
    socket.send(b"hello")
    assert socket.recv() == b"hello"


def plain_wrong(port):
    """Wrong credentials do not, and the handshake reports that to libzmq."""
    socket = connect(zmq.DEALER, port, plain_username=b"alice", plain_password=b"guess", immediate=1)
    monitor = socket.get_monitor_socket(zmq.EVENT_HANDSHAKE_FAILED_AUTH | zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL)
    assert monitor.poll(TIMEOUT_MS), "libzmq was not told"


def heartbeats(port):
    """libzmq pings every 100 ms and would hang up after 1.5 s of silence; the connection stays."""
    socket = connect(zmq.DEALER, port, heartbeat_ivl=100, heartbeat_timeout=1500, heartbeat_ttl=5000)
    monitor = socket.get_monitor_socket(zmq.EVENT_DISCONNECTED)
    socket.send(b"before")
    assert socket.recv() == b"before"
    assert not monitor.poll(2200), "libzmq hung up"
    socket.send(b"after")
    assert socket.recv() == b"after"


def busy(port):
    """The program does nothing with its socket for a while. libzmq answers pings below it; the ROUTER counts them."""
    socket = connect(zmq.DEALER, port, identity=b"busy")
    socket.send(b"ping me")
    assert socket.recv() == b"ping me"
    time.sleep(1)
    socket.send(b"how many pongs?")
    assert int(socket.recv()) >= 3




if __name__ == "__main__":
    globals()[sys.argv[2]](int(sys.argv[1]))
    print("ok")
