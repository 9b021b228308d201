"""A broker on another machine: TLS and a key from arguments, a file or the environment, never on a command line."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import tenure
from certificates import make_certificate
from conftest import HERE, LONG, end_worker, until
from tenure.testing import Broker

KEY = "5a" * 32


@pytest.fixture(scope="module")
def remote(tmp_path_factory: Any) -> Iterator[tuple[Broker, str, Path]]:
    """A broker with TLS that wants a key, its address, and a file with the key."""
    folder = tmp_path_factory.mktemp("remote")
    certificate, private = make_certificate(folder)
    config = folder / "tenure.toml"
    config.write_text(f'tls_cert = "{certificate}"\ntls_key = "{private}"\n\n[[keys]]\nname = "lab"\nkey = "{KEY}"\n')
    key_file = folder / "key"
    key_file.write_text(f"{KEY}\n")
    with Broker(config=str(config)) as broker:
        port = broker.address.rpartition(":")[2]
        yield broker, f"tls://localhost:{port}?ca={certificate}", key_file


def test_a_client_and_a_worker_with_tls_and_a_key(remote: tuple[Broker, str, Path]) -> None:
    _, address, _ = remote
    worker = tenure.Worker(lambda context: context.body, queues=["far"], address=address, key=KEY)
    with worker, tenure.SyncClient(address, key=KEY) as client:
        assert client.submit("far", b"x" * 1_000_000).result(timeout=LONG) == b"x" * 1_000_000


def test_a_wrong_key_over_tls(remote: tuple[Broker, str, Path]) -> None:
    with pytest.raises(tenure.WrongKey):
        tenure.SyncClient(remote[1], key=KEY[::-1]).ping()


def test_a_certificate_that_the_authority_has_not_signed(remote: tuple[Broker, str, Path], tmp_path: Path) -> None:
    other, _ = make_certificate(tmp_path)
    address = remote[1].partition("?")[0] + f"?ca={other}"
    with pytest.raises(tenure.Unreachable, match="certificate"):
        tenure.SyncClient(address, key=KEY, connect_timeout=1.0).ping()


def test_plain_tcp_to_a_broker_with_tls(remote: tuple[Broker, str, Path]) -> None:
    with pytest.raises(tenure.TenureError):
        tenure.SyncClient(remote[0].address, key=KEY, connect_timeout=1.0).ping()


def test_a_worker_program_takes_the_key_from_a_file_and_shows_it_nowhere(
    remote: tuple[Broker, str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    _, address, key_file = remote
    monkeypatch.setenv("TENURE_BROKER", address)
    monkeypatch.setenv("TENURE_KEY_FILE", str(key_file))
    worker = subprocess.Popen([sys.executable, "-m", "tenure", "work", "tasks_app:app"], cwd=HERE)
    try:
        with tenure.SyncClient() as client:
            assert KEY not in repr(client)
            until("the worker is there", lambda: any(one.presence == "live" for one in client.workers()))
        seen = _command_lines(worker.pid)
        assert "tasks_app:app" in seen and KEY not in seen
        from tasks_app import app

        program = f"import tasks_app; print(tasks_app.add.submit(3, 4).result(timeout={LONG}))"
        said = subprocess.run([sys.executable, "-c", program], cwd=HERE, capture_output=True, text=True, timeout=LONG)
        assert said.stdout == "7\n", said.stderr
        assert KEY not in repr(app)
    finally:
        end_worker(worker)


def test_a_key_file_that_is_empty_or_missing_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    empty = tmp_path / "empty"
    empty.touch()
    for path, why in ((empty, "is empty"), (tmp_path / "none", "cannot be read")):
        monkeypatch.setenv("TENURE_KEY_FILE", str(path))
        with pytest.raises(tenure.BadSetting, match=why):
            tenure.SyncClient("127.0.0.1:1")


def _command_lines(pid: int) -> str:
    """The command lines of a process and its children, as every user of the machine can read them."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return "\n".join(Path(f"/proc/{one}/cmdline").read_bytes().decode() for one in (str(pid), *children))
