"""The process: what happens when it forks and when its interpreter exits."""

from __future__ import annotations

import atexit
import os

from . import _native

#: Grows with every fork, so that what was made before one is recognized.
_generation = 0


def generation() -> int:
    """How many forks lie between the process that imported this package and this one."""
    return _generation


def _forked() -> None:
    global _generation
    _generation += 1
    _native.forked()


os.register_at_fork(after_in_child=_forked)
# Ends every wait in the native client, so that no thread comes back for the interpreter's lock when it is gone.
atexit.register(_native.leave)
