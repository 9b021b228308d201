"""As much CBOR (RFC 8949) as the examples need: whole numbers, floats, text, bytes, lists, dictionaries, constants."""

import struct

_CONSTANTS = {0xF4: False, 0xF5: True, 0xF6: None}


def dumps(value):
    """A value as bytes."""
    for byte, constant in _CONSTANTS.items():
        if value is constant:
            return bytes([byte])
    if isinstance(value, int):
        return _head(0, value) if value >= 0 else _head(1, -1 - value)
    if isinstance(value, float):
        return b"\xfb" + struct.pack(">d", value)
    if isinstance(value, bytes):
        return _head(2, len(value)) + value
    if isinstance(value, str):
        text = value.encode()
        return _head(3, len(text)) + text
    if isinstance(value, (list, tuple)):
        return _head(4, len(value)) + b"".join(map(dumps, value))
    if isinstance(value, dict):
        return _head(5, len(value)) + b"".join(dumps(part) for pair in value.items() for part in pair)
    raise TypeError(f"{type(value).__name__} has no CBOR here")


def loads(data):
    """The value of bytes that hold exactly one."""
    value, rest = _read(memoryview(data))
    if rest:
        raise ValueError("bytes after the value")
    return value


def _head(kind, number):
    if number < 24:
        return bytes([kind << 5 | number])
    for extra, (letter, limit) in enumerate([("B", 1 << 8), ("H", 1 << 16), ("I", 1 << 32), ("Q", 1 << 64)]):
        if number < limit:
            return bytes([kind << 5 | 24 + extra]) + struct.pack(">" + letter, number)
    raise ValueError("number too large")


def _read(data):
    if not data:
        raise ValueError("a value was cut off")
    first, rest = data[0], data[1:]
    if first in _CONSTANTS:
        return _CONSTANTS[first], rest
    if first in (0xF9, 0xFA, 0xFB):
        letter = {0xF9: "e", 0xFA: "f", 0xFB: "d"}[first]
        size = struct.calcsize(letter)
        return struct.unpack(">" + letter, rest[:size])[0], rest[size:]
    kind, number = first >> 5, first & 31
    if number >= 28:
        raise ValueError("open lengths are not read here")
    if number >= 24:
        size = 1 << number - 24
        number, rest = int.from_bytes(rest[:size], "big"), rest[size:]
    if kind == 0:
        return number, rest
    if kind == 1:
        return -1 - number, rest
    if kind in (2, 3):
        if len(rest) < number:
            raise ValueError("a value was cut off")
        text = bytes(rest[:number])
        return (text if kind == 2 else text.decode()), rest[number:]
    if kind == 4:
        items = []
        for _ in range(number):
            item, rest = _read(rest)
            items.append(item)
        return items, rest
    if kind == 5:
        entries = {}
        for _ in range(number):
            key, rest = _read(rest)
            entries[key], rest = _read(rest)
        return entries, rest
    raise ValueError("tags are not read here")
