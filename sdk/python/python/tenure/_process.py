"""The process: what happens when it forks and when its interpreter exits."""

from __future__ import annotations

import atexit
import contextlib
import os
import threading

from . import _native

#: Grows with every fork, so that what was made before one is recognized.
_generation = 0
#: Held while something is made again after a fork. The child has one that no thread of the parent holds.
lock = threading.Lock()


def generation() -> int:
    """How many forks lie between the process that imported this package and this one."""
    return _generation


def _forked() -> None:
    global _generation, lock
    _generation += 1
    lock = threading.Lock()
    # The broker notices the end of the parent by its connections: a child must not keep them open.
    for descriptor in _native.forked():
        with contextlib.suppress(OSError):
            os.close(descriptor)


os.register_at_fork(after_in_child=_forked)
# Ends every wait in the native client, so that no thread comes back for the interpreter's lock when it is gone.
atexit.register(_native.leave)
