"""Receive the webhooks of a broker and check their signatures.

    python receiver.py SECRET [PORT]

Prints one line for each event that the broker has signed, and answers 401 to everything else. Needs Python only.
"""

import hashlib
import hmac
import json
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

TOLERANCE_SECONDS = 300


def verify(secret: bytes, timestamp: str, signature: str, body: bytes) -> bool:
    """Whether the broker signed this body, and did so recently."""
    if not timestamp.isascii() or not timestamp.isdigit():
        return False
    if abs(time.time() - int(timestamp)) > TOLERANCE_SECONDS:
        return False
    expected = "v1=" + hmac.new(secret, timestamp.encode() + b"." + body, hashlib.sha256).hexdigest()
    return hmac.compare_digest(expected, signature)


def say(line: str) -> None:
    """Print a line in one piece, because each request has a thread of its own."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


class Receiver(BaseHTTPRequestHandler):
    secret = b""

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        timestamp = self.headers.get("tenure-timestamp", "")
        signature = self.headers.get("tenure-signature", "")
        is_signed = verify(self.secret, timestamp, signature, body)
        self.send_response(204 if is_signed else 401)
        self.end_headers()
        if is_signed:
            event = json.loads(body)["event"]
            say(f"event {event['kind']} {event.get('queue', '-')} {self.headers['tenure-delivery']}")
        else:
            say("refused")

    def log_message(self, *_: object) -> None:
        pass


def main() -> None:
    Receiver.secret = sys.argv[1].encode()
    server = ThreadingHTTPServer(("127.0.0.1", int(sys.argv[2]) if len(sys.argv) > 2 else 0), Receiver)
    print("listening", server.server_port, flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
