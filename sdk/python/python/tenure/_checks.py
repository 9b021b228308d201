"""Checks of arguments: what cannot be right raises where it is written, and says what to pass."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Optional

from .errors import BadSetting

U16 = (1 << 16) - 1
U32 = (1 << 32) - 1
U64 = (1 << 64) - 1


def whole(name: str, value: Any, least: int, most: int) -> int:
    """A whole number within bounds.

    >>> whole("retries", 3, 0, U16)
    3
    """
    if isinstance(value, bool) or not hasattr(value, "__index__") or not least <= value.__index__() <= most:
        raise BadSetting(f"{name} is {value!r}: pass a number from {least} to {most}")
    return int(value.__index__())


def maybe_whole(name: str, value: Optional[int], least: int, most: int) -> Optional[int]:
    """The same, if it is given."""
    return None if value is None else whole(name, value, least, most)


def text(name: str, value: Any) -> str:
    """A text."""
    if not isinstance(value, str):
        raise BadSetting(f"{name} is {value!r}: pass a text")
    return value


def word(name: str, value: Any, known: Sequence[str]) -> str:
    """One of a few words."""
    if value not in known:
        raise BadSetting(f"{name} is {value!r}: say {', '.join(known[:-1])} or {known[-1]}")
    return str(value)


def names(name: str, values: Iterable[str]) -> list[str]:
    """A list of texts."""
    if isinstance(values, str):
        raise BadSetting(f"{name} is the text {values!r}: pass a list of names")
    if not isinstance(values, Iterable):
        raise BadSetting(f"{name} is {values!r}: pass a list of names")
    found = list(values)
    if not all(isinstance(one, str) for one in found):
        raise BadSetting(f"{name} is {found!r}: pass a list of names")
    return found
