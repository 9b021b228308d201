"""Where the broker is and who this program is to it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Optional

from . import _native
from .errors import BadSetting
from .submission import Span, span_millis

#: How this package names itself to the broker.
SOFTWARE = f"tenure {_native.__version__} (Python)"
#: A key file is read this far.
KEY_CHARS_MAX = 4_096
#: Where a broker listens by default.
DEFAULT_ADDRESS = "127.0.0.1:7171"


@dataclass(frozen=True)
class Settings:
    """What a connection needs."""

    address: str
    namespace: Optional[str]
    key: Optional[str]
    identity: Optional[str]
    connect_timeout_ms: int

    def connect(self, via: _native.Via = None) -> object:
        """Connects: the native client, or through a port."""
        timeout_ms = self.connect_timeout_ms
        return _native.connect(self.address, self.namespace, self.key, self.identity, timeout_ms, SOFTWARE, via)

    def __repr__(self) -> str:
        # A key never shows.
        return f"{self.address!r}" + (f", namespace={self.namespace!r}" if self.namespace else "")


def key_of_environment() -> Optional[str]:
    """The key in TENURE_KEY, or in the file that TENURE_KEY_FILE names."""
    key = os.environ.get("TENURE_KEY")
    file = os.environ.get("TENURE_KEY_FILE")
    return key or (key_of_file(file) if file else None)


def key_of_file(path: str) -> str:
    """The first line of a file."""
    try:
        with open(os.path.expanduser(path)) as file:
            key = file.readline(KEY_CHARS_MAX).strip()
    except (OSError, UnicodeDecodeError) as error:
        raise BadSetting(f"the key file cannot be read: {error}") from error
    if not key:
        raise BadSetting(f"the first line of the key file {path} is empty: it should hold the key")
    return key


def settings(
    address: Optional[str],
    namespace: Optional[str],
    key: Optional[str],
    identity: Optional[str],
    connect_timeout: Span,
) -> Settings:
    """What was said, with the environment for what was not: TENURE_BROKER, TENURE_NAMESPACE, and TENURE_KEY or
    TENURE_KEY_FILE.
    """
    return Settings(
        address or os.environ.get("TENURE_BROKER") or DEFAULT_ADDRESS,
        namespace or os.environ.get("TENURE_NAMESPACE") or None,
        key or key_of_environment(),
        identity,
        span_millis(connect_timeout),
    )
