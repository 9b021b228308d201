"""Log lines that show their fields."""

from __future__ import annotations

import logging
from collections.abc import MutableMapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    _Adapter = logging.LoggerAdapter[logging.Logger]
else:
    _Adapter = logging.LoggerAdapter


class FieldLogger(_Adapter):
    """A logger whose lines end with their ``extra`` fields: formatters that do not know them show them, too.

    A sentence with fields takes no other arguments.
    """

    def __init__(self, name: str) -> None:
        super().__init__(logging.getLogger(name), {})

    def process(self, msg: Any, kwargs: MutableMapping[str, Any]) -> tuple[Any, MutableMapping[str, Any]]:
        """Appends the fields of a line."""
        fields = kwargs.get("extra")
        if fields:
            msg = f"{msg}: {' '.join(f'{name}={value}' for name, value in fields.items())}"
        return msg, kwargs
