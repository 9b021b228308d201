"""A door with a certificate: who trusts it comes in, and who speaks plainly does not."""

import sys

import grpc
from common import Broker, address, pb, refused, services
from grpc import StatusCode

with open(sys.argv[2], "rb") as file:
    trusted = grpc.ssl_channel_credentials(root_certificates=file.read())
secure = grpc.secure_channel(address(), trusted)
assert services.BrokerStub(secure).Counts(pb.CountsRequest(), timeout=20).last_event == 0
with refused(StatusCode.UNAVAILABLE):
    Broker(address()).broker.Counts(pb.CountsRequest(), timeout=20)
