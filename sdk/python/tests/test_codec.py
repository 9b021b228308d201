"""What goes in comes out."""

from __future__ import annotations

import collections
import dataclasses
import datetime
import decimal
import enum
import pathlib
import uuid
from typing import Any, NamedTuple

import numpy
import pytest
import tenure
from tenure.codec import decode, encode


@dataclasses.dataclass(frozen=True)
class Leaf:
    name: str
    when: datetime.datetime


@dataclasses.dataclass
class Tree:
    leaves: list[Leaf]
    parent: Any = None


class Colour(enum.Enum):
    RED = "red"


class Level(enum.IntEnum):
    HIGH = 3


class Position(NamedTuple):
    x: Any
    y: Any


class Count(int):
    pass


NOW = datetime.datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=datetime.timezone(datetime.timedelta(hours=2)))


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        -1,
        2**64 - 1,
        2**200,
        -(2**200),
        1.5,
        float("inf"),
        "é",
        b"\x00\xff",
        [1, [2, {"a": b"b"}]],
        (1, (2, 3)),
        {1, 2},
        frozenset({"a"}),
        {1: "one", (1, 2): "two"},
        NOW,
        NOW.replace(tzinfo=None),
        NOW.date(),
        NOW.time(),
        datetime.timedelta(days=-3, microseconds=7),
        uuid.UUID(int=7),
        decimal.Decimal("1.10"),
        1 + 2j,
        Colour.RED,
        Level.HIGH,
        pathlib.Path("/tmp/x"),
        Tree([Leaf("a", NOW)], Tree([])),
    ],
)
def test_values_come_out_as_they_went_in(value: Any) -> None:
    again = decode(encode(value))
    assert again == value and type(again) is type(value)


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        (Position(1, (2, Position(3, 4))), (1, (2, (3, 4)))),
        ({"at": Position(1, 2)}, {"at": (1, 2)}),
        (Count(5), 5),
        (Count(2**70), 2**70),
        (Count(-(2**70)), -(2**70)),
        (collections.OrderedDict(a=1), {"a": 1}),
        (collections.Counter("aab"), {"a": 2, "b": 1}),
    ],
)
def test_a_subclass_of_a_plain_type_comes_out_as_that_type(value: Any, plain: Any) -> None:
    again = decode(encode(value))
    assert again == plain and type(again) is type(plain)


@pytest.mark.parametrize(
    "array",
    [
        numpy.arange(12, dtype="<i4").reshape(3, 4),
        numpy.asfortranarray(numpy.arange(6.0).reshape(2, 3)),
        numpy.array([], dtype=float),
        numpy.array(5.0),
        numpy.array(["a", "bc"]),
        numpy.array(["2026-01-01"], dtype="datetime64[D]"),
        numpy.array([(1, 2.0)], dtype=[("a", "<i4"), ("b", "<f8")]),
        numpy.float32(1.5),
        numpy.int64(7),
    ],
)
def test_arrays_come_out_as_they_went_in(array: Any) -> None:
    again = decode(encode({"array": array}))["array"]
    assert again.dtype == array.dtype and again.shape == array.shape and (again == array).all()
    assert type(again) is type(array)


def test_what_cannot_be_encoded_says_so() -> None:
    @dataclasses.dataclass
    class Local:
        x: int

    loop: list[Any] = []
    loop.append(loop)
    for value, why in [
        (object(), "of type object"),
        (lambda: None, "of type function"),
        (Local(1), "defined inside a function"),
        (numpy.array([object()]), "Python objects"),
        (loop, "cannot encode|too deep"),
    ]:
        with pytest.raises(tenure.CannotEncode, match=why):
            encode(value)


def test_bytes_from_elsewhere_call_nothing_and_import_nothing() -> None:
    import msgpack

    def forged(code: int, *content: Any) -> bytes:
        return msgpack.packb(msgpack.ExtType(code, msgpack.packb(content)))  # type: ignore[no-any-return]

    for data in [
        b"",
        b"\xc1",
        msgpack.packb(msgpack.ExtType(99, b"")),
        forged(11, "os", "system", {"command": "true"}),
        forged(11, "antigravity", "X", {}),
        forged(11, "subprocess", "Popen", {"args": ["true"]}),
        forged(12, "pathlib", "Path", "/"),
        forged(15, "|O", [1], b"12345678", False),
        forged(15, "<i4", [1 << 40], b"", False),
    ]:
        with pytest.raises(tenure.CannotDecode):
            decode(data)
