"""Peers that talk to each other: one listens and answers, one calls, one receives broadcasts.

    python talk.py 127.0.0.1:7171 listen desk
    python talk.py 127.0.0.1:7171 call desk "is anybody there?"
    python talk.py 127.0.0.1:7171 hear weather
    python talk.py 127.0.0.1:7171 broadcast weather rain
"""

import sys

from tenure_native import Connection, Refused

address, verb, name, *rest = sys.argv[1:]
peer = Connection(address, identity=f"python-{verb}")
if verb == "listen":
    peer.ask("listen", addresses=[name])
    print("listening", flush=True)
    while told := peer.notice():
        kind, fields = told
        if kind == "call":
            print("called by", fields["from"], fields.get("body", b"").decode(), flush=True)
            # First a sign that it has arrived; the answer proper comes after it.
            peer.ask("answer", call=fields["call"], outcome="pending")
            peer.ask("answer", call=fields["call"], outcome="result", body=fields.get("body", b"").upper())
elif verb == "call":
    number = peer.send("call", to=name, body=rest[0].encode(), timeout_ms=10_000)
    try:
        while (answered := peer.answer(number))["outcome"] == "pending":
            print("pending", flush=True)
        print(answered["outcome"], answered.get("body", b"").decode(), flush=True)
    except Refused as no:
        print("refused", no.code, flush=True)
elif verb == "hear":
    peer.ask("hear", subject=name)
    print("hearing", flush=True)
    kind, fields = peer.notice()
    print(kind, fields["subject"], fields["sender"], fields["body"].decode(), flush=True)
elif verb == "broadcast":
    print("receivers", peer.ask("broadcast", subject=name, body=rest[0].encode()).get("receivers", 0), flush=True)
else:
    sys.exit(__doc__)
