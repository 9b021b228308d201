"""Arguments and results as MessagePack, never pickled.

Beside MessagePack's own types (``None``, ``bool``, ``int``, ``float``, ``str``, ``bytes``, ``list``, ``dict``) it knows
tuples, sets, datetimes, dates, times, timedeltas, UUIDs, Decimals, complex numbers, enums, paths, dataclasses and numpy
arrays. Each has an extension type, so what comes out is what went in (a subclass of a plain type, such as a namedtuple,
comes out as the plain type):

>>> import datetime, uuid
>>> values = [(1, 2), {3}, datetime.timedelta(seconds=5), uuid.UUID(int=7), 2**70, b"raw"]
>>> decode(encode(values)) == values
True

A dataclass or enum is found again by its module and name, and only among those that the reading program has imported:
bytes from elsewhere never import a module or call anything but the constructor of a dataclass or enum.
"""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import enum
import pathlib
import sys
import uuid
from typing import Any, Optional

import msgpack

from ._modules import find_module, module_name
from .errors import CannotDecode, CannotEncode

# The numbers are part of what is stored with tasks: they never change their meaning.
_TUPLE, _SET, _FROZENSET, _DATETIME, _DATE, _TIME, _SPAN = 1, 2, 3, 4, 5, 6, 7
_UUID, _DECIMAL, _COMPLEX, _DATACLASS, _ENUM, _INT, _PATH, _ARRAY = 8, 9, 10, 11, 12, 13, 14, 15


def encode(value: Any) -> bytes:
    """The bytes of a value.

    >>> encode(object())
    Traceback (most recent call last):
    ...
    tenure.errors.CannotEncode: cannot encode a value of type object: use MessagePack's types, dataclasses, ...
    """
    try:
        packed: bytes = msgpack.packb(value, default=_extend, strict_types=True, use_bin_type=True)
        return packed
    except CannotEncode:
        raise
    except RecursionError:
        raise CannotEncode("the value is nested too deeply, or contains itself") from None
    except (TypeError, ValueError, OverflowError) as error:
        raise CannotEncode(f"cannot encode this value: {error}") from error


def decode(data: bytes) -> Any:
    """The value of some bytes."""
    try:
        return msgpack.unpackb(data, ext_hook=_restore, strict_map_key=False, raw=False)
    except CannotDecode:
        raise
    except Exception as error:
        raise CannotDecode(f"these bytes were not encoded by this package: {error}") from error


def _ext(code: int, value: Any) -> msgpack.ExtType:
    return msgpack.ExtType(code, encode(value))


def _extend(value: Any) -> Any:
    kind = type(value)
    if kind is tuple:
        return _ext(_TUPLE, list(value))
    if kind is set:
        return _ext(_SET, list(value))
    if kind is frozenset:
        return _ext(_FROZENSET, list(value))
    if kind is datetime.datetime:
        return _ext(_DATETIME, value.isoformat())
    if kind is datetime.date:
        return _ext(_DATE, value.isoformat())
    if kind is datetime.time:
        return _ext(_TIME, value.isoformat())
    if kind is datetime.timedelta:
        return _ext(_SPAN, [value.days, value.seconds, value.microseconds])
    if isinstance(value, uuid.UUID):
        return msgpack.ExtType(_UUID, value.bytes)
    if kind is decimal.Decimal:
        return _ext(_DECIMAL, str(value))
    if kind is complex:
        return _ext(_COMPLEX, [value.real, value.imag])
    if kind is int:
        # Beyond 64 bits.
        return _ext(_INT, str(value))
    if isinstance(value, enum.Enum):
        return _ext(_ENUM, [*_place(kind), value.value])
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {one.name: getattr(value, one.name) for one in dataclasses.fields(value) if one.init}
        return _ext(_DATACLASS, [*_place(kind), fields])
    if isinstance(value, pathlib.PurePath):
        return _ext(_PATH, str(value))
    array = _array(value)
    if array is not None:
        return _ext(_ARRAY, array)
    # A subclass of a plain type is sent as that type: an IntFlag was an enum above, a defaultdict is a dict.
    plain: Any
    for plain in (dict, list, str, bytes, float):
        if isinstance(value, plain):
            return plain(value)
    if isinstance(value, tuple):
        return _ext(_TUPLE, list(value))
    if isinstance(value, int):
        number = int(value)
        return number if -(2**63) <= number < 2**64 else _ext(_INT, str(number))
    if isinstance(value, (bytearray, memoryview)):
        return bytes(value)
    raise CannotEncode(
        f"cannot encode a value of type {kind.__name__}: use MessagePack's types, dataclasses, datetimes, UUIDs or "
        "numpy arrays"
    )


def _place(kind: type) -> list[str]:
    if "<locals>" in kind.__qualname__:
        raise CannotEncode(f"{kind.__qualname__} is defined inside a function: the receiver cannot import it")
    return [module_name(kind.__module__), kind.__qualname__]


def _array(value: Any) -> Optional[list[Any]]:
    """A numpy array or number: type, shape and bytes in the order of C."""
    numpy = sys.modules.get("numpy")
    if numpy is None or not isinstance(value, (numpy.ndarray, numpy.generic)):
        return None
    if value.dtype.hasobject:
        raise CannotEncode("a numpy array of Python objects cannot be encoded: convert it to a numeric type")
    scalar = isinstance(value, numpy.generic)
    described = value.dtype.descr if value.dtype.names else value.dtype.str
    return [described, list(value.shape), value.tobytes(), scalar]


def _restore(code: int, data: bytes) -> Any:
    if code == _UUID:
        return uuid.UUID(bytes=bytes(data))
    if not _TUPLE <= code <= _ARRAY:
        raise CannotDecode(f"unknown extension type {code}: update this package to the version of the sender")
    value = decode(data)
    if code == _TUPLE:
        return tuple(value)
    if code == _SET:
        return set(value)
    if code == _FROZENSET:
        return frozenset(value)
    if code == _DATETIME:
        return datetime.datetime.fromisoformat(value)
    if code == _DATE:
        return datetime.date.fromisoformat(value)
    if code == _TIME:
        return datetime.time.fromisoformat(value)
    if code == _SPAN:
        return datetime.timedelta(*value)
    if code == _DECIMAL:
        return decimal.Decimal(value)
    if code == _COMPLEX:
        return complex(*value)
    if code == _INT:
        return int(value)
    if code == _PATH:
        return pathlib.Path(value)
    if code == _ARRAY:
        return _restore_array(*value)
    module, name, content = value
    kind = _find(module, name)
    if code == _ENUM:
        if not issubclass(kind, enum.Enum):
            raise CannotDecode(f"{module}.{name} is not an enum here")
        return kind(content)
    if not dataclasses.is_dataclass(kind):
        raise CannotDecode(f"{module}.{name} is not a dataclass here")
    return kind(**content)


def _find(module: str, name: str) -> type:
    found: Any = find_module(module)
    if found is None:
        raise CannotDecode(f"{module}.{name} is not known here: import {module} in this program")
    for part in name.split("."):
        found = getattr(found, part, None)
    if not isinstance(found, type):
        raise CannotDecode(f"{module} has no class {name} here")
    return found


def _restore_array(described: Any, shape: list[int], data: bytes, scalar: bool) -> Any:
    try:
        import numpy
    except ImportError:
        raise CannotDecode("this value is a numpy array, and numpy is not installed here") from None
    if isinstance(described, list):
        described = [tuple(field) for field in described]
    array = numpy.frombuffer(data, dtype=numpy.dtype(described)).reshape(shape)
    return array[()] if scalar else array.copy()
