"""The hooks of a broker: how they fare, what one has given up, and how that is sent again."""

import json

from common import Broker, address, pb, refused
from grpc import StatusCode

broker = Broker(address()).broker

(hook,) = broker.Hooks(pb.HooksRequest()).hooks
assert (hook.hook, hook.kind, hook.target) == ("ops", "webhook", "http://127.0.0.1:9/"), hook
assert (list(hook.events), list(hook.queues)) == (["failed"], ["gpu"])
assert (hook.next_event, hook.given_up, hook.undelivered) == (19, 2, 2)
assert hook.last_error == "connection refused" and not hook.HasField("last_delivered_at")

events = broker.Undelivered(pb.UndeliveredRequest(hook="ops")).events
assert [(one.seq, one.kind, one.attempts, one.given_up_at) for one in events] == [
    (17, "failed", 12, 1_790_000_000_000),
    (18, "failed", 12, 1_790_000_000_000),
]
assert json.loads(events[0].body) == {"hook": "ops"} and events[0].error == "connection refused"

with refused(StatusCode.INVALID_ARGUMENT, "bad-value"):
    broker.Redeliver(pb.RedeliverRequest(hook="ops", event=16))
with refused(StatusCode.NOT_FOUND, "unknown-hook"):
    broker.Redeliver(pb.RedeliverRequest(hook="other"))
assert broker.Redeliver(pb.RedeliverRequest(hook="ops", event=17)).events == 1
assert broker.Redeliver(pb.RedeliverRequest(hook="ops")).events == 2
