"""Where the broker is and who this program is to it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Optional

from . import _native
from .submission import Span, span_millis

#: How this package names itself to the broker.
SOFTWARE = f"tenure {_native.__version__} (Python)"
#: Where a broker listens by default.
DEFAULT_ADDRESS = "127.0.0.1:7171"


@dataclass(frozen=True)
class Settings:
    """What a connection needs."""

    address: str
    namespace: Optional[str]
    key: Optional[str]
    identity: Optional[str]
    patience_ms: int

    def connect(self, via: _native.Via = None) -> object:
        """Connects: the native client, or through a port."""
        return _native.connect(self.address, self.namespace, self.key, self.identity, self.patience_ms, SOFTWARE, via)

    def __repr__(self) -> str:
        # A key never shows.
        return f"{self.address!r}" + (f", namespace={self.namespace!r}" if self.namespace else "")


def settings(
    address: Optional[str],
    namespace: Optional[str],
    key: Optional[str],
    identity: Optional[str],
    patience: Span,
) -> Settings:
    """What was said, with the environment for what was not: TENURE_BROKER, TENURE_NAMESPACE and TENURE_KEY."""
    return Settings(
        address or os.environ.get("TENURE_BROKER") or DEFAULT_ADDRESS,
        namespace or os.environ.get("TENURE_NAMESPACE") or None,
        key or os.environ.get("TENURE_KEY") or None,
        identity,
        span_millis(patience),
    )
