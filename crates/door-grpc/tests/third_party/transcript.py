"""Plays a transcript of spec/grpc.md against a broker.

`C: Service/Method {…}` is a call, `S: {…}` its answer or `S: STATUS code` its refusal. With a name (`C sub:`) the call is
a stream of that name; `S sub:` is the next message on it, `C sub: {…}` the next message to a stream of requests,
`C sub: <cancel>` and `S sub: <end>` its end. Values are JSON, with `*` for any value, `$name` for one that is the same
everywhere, `b"text"` for bytes, and `…` at the end of a list or map for whatever else.
"""

import base64
import json
import queue
import re
import sys

import grpc
from common import TIMEOUT, Broker, pb, services, sidecar_pb, sidecar_services
from google.protobuf import descriptor_pool, json_format

ANY, REST = object(), object()


class Name(str):
    pass


class Reader:
    """Reads values of the transcripts' notation."""

    TOKEN = re.compile(r'\s*(b?"(?:[^"\\]|\\.)*"|[\[\]{},:*…]|\$\w+|[^\s\[\]{},:]+)')

    def __init__(self, text):
        self.tokens = self.TOKEN.findall(text)

    def value(self):
        token = self.tokens.pop(0)
        if token == "{":
            return self.many("}", self.pair)
        if token == "[":
            return self.many("]", self.value)
        if token == "*":
            return ANY
        if token == "…":
            return REST
        if token.startswith("$"):
            return Name(token[1:])
        if token.startswith('b"'):
            return base64.b64encode(json.loads(token[1:]).encode()).decode()
        return json.loads(token)

    def pair(self):
        if self.tokens[0] == "…":
            return self.value()
        key = json.loads(self.tokens.pop(0))
        assert self.tokens.pop(0) == ":"
        return key, self.value()

    def many(self, end, one):
        found = []
        while self.tokens[0] != end:
            found.append(one())
            if self.tokens[0] == ",":
                self.tokens.pop(0)
        self.tokens.pop(0)
        if end == "]":
            return found
        rest = {"…": REST} if REST in found else {}
        return {**dict(pair for pair in found if pair is not REST), **rest}


class Story:
    def __init__(self, address):
        self.broker = Broker(address)
        self.names = {}
        self.streams = {}
        self.requests = {}
        self.answers = []

    def play(self, text):
        lines = []
        for line in text.splitlines()[1:]:
            if line.startswith(" "):
                lines[-1] += line
            elif line.strip():
                lines.append(line)
        for line in lines:
            try:
                side, peer, said = re.match(r"([CS])(?: (\w+))?: (.*)", line).groups()
                (self.said if side == "C" else self.heard)(peer, said)
            except Exception as error:
                raise AssertionError(f"{line}\n{error!r}") from error
        assert not self.answers, f"not in the transcript: {self.answers}"

    def said(self, peer, text):
        if text == "<cancel>":
            return self.streams[peer].cancel()
        if text == "<done>":
            return self.requests[peer].put(None)
        if text.startswith("{"):
            return self.requests[peer].put(self.message(pb.WorkerMessage, text))
        path, _, text = text.partition(" ")
        service, method = path.split("/")
        module, stubs = (sidecar_pb, sidecar_services) if service == "SidecarService" else (pb, services)
        package = "nexusd.sidecar" if service == "SidecarService" else "tenure.v1"
        described = descriptor_pool.Default().FindServiceByName(f"{package}.{service}").methods_by_name[method]
        call = getattr(getattr(stubs, f"{service}Stub")(self.broker.channel), method)
        if described.client_streaming:
            self.requests[peer] = queue.Queue()
            self.streams[peer] = call(iter(self.requests[peer].get, None), timeout=TIMEOUT)
            return None
        kind = getattr(module, described.input_type.name)
        request = self.message(kind, text or "{}")
        if described.server_streaming:
            self.streams[peer] = call(request, timeout=TIMEOUT)
            return None
        try:
            self.answers.append(call(request, timeout=TIMEOUT))
        except grpc.RpcError as error:
            self.answers.append(error)

    def heard(self, peer, text):
        if peer in self.streams:
            try:
                answer = next(self.streams[peer], None)
            except grpc.RpcError as error:
                answer = error
        else:
            answer = self.answers.pop(0)
        if text == "<end>":
            assert answer is None, answer
        elif text.startswith("{"):
            assert not isinstance(answer, (grpc.RpcError, type(None))), answer
            told = json_format.MessageToDict(answer, preserving_proto_field_name=True)
            assert self.matches(Reader(text).value(), told), json.dumps(told, ensure_ascii=False)
        else:
            status, word = text.split()
            trailers = dict(answer.trailing_metadata())
            assert (answer.code().name, trailers.get("tenure-code")) == (status, word), (answer, trailers)

    def message(self, kind, text):
        return json_format.ParseDict(self.filled(Reader(text).value()), kind())

    def filled(self, value):
        if isinstance(value, Name):
            return self.names[value]
        if isinstance(value, dict):
            return {key: self.filled(inner) for key, inner in value.items()}
        if isinstance(value, list):
            return [self.filled(inner) for inner in value]
        return value

    def matches(self, wanted, told):
        if wanted is ANY:
            return True
        if isinstance(wanted, Name):
            return self.names.setdefault(wanted, told) == told
        if isinstance(wanted, dict):
            more = "…" in wanted
            wanted = {key: value for key, value in wanted.items() if value is not REST}
            return (
                isinstance(told, dict)
                and (more or set(told) == set(wanted))
                and all(key in told and self.matches(value, told[key]) for key, value in wanted.items())
            )
        if isinstance(wanted, list):
            more = bool(wanted) and wanted[-1] is REST
            wanted = wanted[:-1] if more else wanted
            enough = len(told) >= len(wanted) if more else len(told) == len(wanted)
            return enough and all(self.matches(value, inner) for value, inner in zip(wanted, told))
        # Numbers of 64 bits come as text.
        return wanted == told or str(wanted) == told


with open(sys.argv[2], encoding="utf-8") as file:
    Story(sys.argv[1]).play(file.read())
