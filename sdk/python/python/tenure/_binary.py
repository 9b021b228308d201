"""Where the broker's program lies."""

from __future__ import annotations

import os
import shutil
import sys
import sysconfig

from .errors import TenureError


class NoBroker(TenureError, FileNotFoundError):
    """The ``tenure`` program is not installed. Install the wheel, or name the program with TENURE_BINARY."""


def find() -> str:
    """The path of the ``tenure`` program: TENURE_BINARY, the one of this installation, or the one on the PATH."""
    said = os.environ.get("TENURE_BINARY")
    if said:
        return said
    for folder in (sysconfig.get_path("scripts"), os.path.dirname(sys.executable)):
        found = shutil.which("tenure", path=folder)
        if found:
            return found
    found = shutil.which("tenure")
    if found:
        return found
    raise NoBroker("the tenure program was not found: install the wheel, or name the program with TENURE_BINARY")
