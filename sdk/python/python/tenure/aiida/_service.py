"""The broker of an AiiDA installation: a ``tenure serve`` that is started when it is needed and stays.

It serves all profiles of the installation, each in a namespace of its own, on a Unix socket that only this user can
reach. It is no child of the daemon: ``verdi daemon stop`` leaves it running.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Optional

from .. import _binary
from ..errors import TenureError

#: A Unix socket's path may be this long.
SOCKET_PATH_MAX = 100
#: How long the broker may take to open its socket: it reads its journal first.
START_SECONDS = 60.0
STOP_SECONDS = 30.0
_CLOSED = ("native", "xmessage", "resp", "mdp", "pingpong", "grpc", "http")


class BrokerNotStarted(TenureError):
    """The broker could not be started. Its log says why."""


class Service:
    """The broker of one directory."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.log_path = directory / "broker.log"
        self._pid_path = directory / "broker.pid"
        self._stopped_path = directory / "stopped"
        self.socket_path = _socket_path(directory)

    @property
    def address(self) -> str:
        """The address for clients."""
        return f"unix:{self.socket_path}"

    def is_running(self) -> bool:
        """Whether a broker takes connections."""
        with socket.socket(socket.AF_UNIX) as probe:
            probe.settimeout(2.0)
            try:
                probe.connect(str(self.socket_path))
            except OSError:
                return False
        return True

    def pid(self) -> Optional[int]:
        """The broker's process, if it is running."""
        try:
            pid = int(self._pid_path.read_text())
            command = Path(f"/proc/{pid}/cmdline").read_bytes()
        except (OSError, ValueError):
            return None
        # The number may belong to another program by now.
        return pid if str(self.directory / "data").encode() in command else None

    def was_stopped(self) -> bool:
        """Whether a user asked the broker to stop. Then only a new command starts it."""
        return self._stopped_path.exists()

    def ensure(self) -> bool:
        """Starts the broker if none is running. Whether it was started now."""
        if self.is_running():
            return False
        with self._locked():
            # Another program may have been faster.
            if self.is_running():
                return False
            self._start()
            return True

    def stop(self) -> bool:
        """Stops the broker. Whether one was running."""
        with self._locked():
            self._stopped_path.touch()
            pid = self.pid()
            if pid is None:
                return False
            os.kill(pid, signal.SIGTERM)
            deadline = time.monotonic() + STOP_SECONDS
            while self.pid() is not None and self.is_running():
                if time.monotonic() > deadline:
                    raise TenureError(f"the broker (process {pid}) does not stop: see {self.log_path}")
                time.sleep(0.05)
            with contextlib.suppress(OSError):
                self._pid_path.unlink()
            return True

    def _start(self) -> None:
        with contextlib.suppress(OSError):
            self._stopped_path.unlink()
        self.socket_path.parent.mkdir(parents=True, exist_ok=True)
        command = [_binary.find(), "serve", "--print-addresses", "json", "--data-dir", str(self.directory / "data")]
        command += ["--native-unix", str(self.socket_path)]
        for door in _CLOSED:
            command += [f"--{door}", "off"]
        environment = {name: value for name, value in os.environ.items() if not name.startswith("TENURE_")}
        with open(self.log_path, "ab") as log, open(os.devnull, "rb") as nothing:
            # A session of its own: signals to the daemon or the terminal do not reach it.
            process = subprocess.Popen(
                command, stdin=nothing, stdout=log, stderr=log, env=environment, start_new_session=True, cwd="/"
            )
        self._pid_path.write_text(str(process.pid))
        deadline = time.monotonic() + START_SECONDS
        while not self.is_running():
            ended = process.poll()
            if ended is not None or time.monotonic() > deadline:
                why = f"it ended with exit code {ended}" if ended is not None else "it takes no connections"
                raise BrokerNotStarted(f"the broker could not be started: {why}; see {self.log_path}")
            time.sleep(0.02)
        # Nothing waits for it here: it outlives this program.
        process.returncode = 0

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        self.directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        with open(self.directory / "broker.lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield


def _socket_path(directory: Path) -> Path:
    path = directory / "broker.sock"
    if len(str(path).encode()) <= SOCKET_PATH_MAX:
        return path
    # Too long for the system: a short name that is the same for every program of this installation.
    digest = hashlib.sha256(str(directory).encode()).hexdigest()[:16]
    return Path(tempfile.gettempdir()) / f"tenure-aiida-{os.getuid()}" / f"{digest}.sock"
