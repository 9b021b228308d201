"""Calls by address and broadcasts: a calculator that others ask, and a broadcast to all receivers.

python talk.py
"""

from __future__ import annotations

import threading

import tenure


def serve(calls: tenure.SyncListener) -> None:
    for call in calls:
        try:
            call.answer(str(sum(map(int, call.body.split(b"+")))))
        except ValueError:
            call.error("write numbers with + between them")


def main() -> None:
    with tenure.SyncClient() as client, client.listen(["examples-calculator"]) as calls:
        threading.Thread(target=serve, args=(calls,), daemon=True).start()
        print("1+2+3 =", client.call("examples-calculator", "1+2+3", timeout=5).decode())
        try:
            client.call("examples-calculator", "one+two", timeout=5)
        except tenure.CallFailed as failed:
            print(failed)
        try:
            client.call("examples-absent", "hello")
        except tenure.NoListener:
            print("no listener")
        with client.receive_broadcasts(subject="examples-news") as heard:
            client.broadcast("it rains", subject="examples-news", sender="weather station")
            news = heard.next(timeout=5)
            assert isinstance(news, tenure.Broadcast)
            print(f"{news.sender}: {news.body.decode()}")


if __name__ == "__main__":
    main()
