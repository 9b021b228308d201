"""A profile whose broker runs elsewhere: TCP with TLS and a key."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from certificates import make_certificate
from installation import Installation, until
from tenure.testing import Broker

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]

KEY = "3c" * 32
PROFILE = "remote"
SUBMIT = """
from aiida.engine import submit
from aiida.orm import Int, Str
from processes import Steps

print("pk", submit(Steps, path=Str({path!r}), count=Int(3)).pk)
"""


@pytest.fixture
def remote(aiida: Installation, tmp_path: Path) -> Iterator[Broker]:
    """A profile with a broker of its own."""
    certificate, private = make_certificate(tmp_path)
    config, key_file = tmp_path / "tenure.toml", tmp_path / "key"
    config.write_text(f'tls_cert = "{certificate}"\ntls_key = "{private}"\n\n[[keys]]\nname = "lab"\nkey = "{KEY}"\n')
    key_file.write_text(f"{KEY}\n")
    with Broker(config=str(config)) as broker:
        address = f"tls://localhost:{broker.address.rpartition(':')[2]}?ca={certificate}"
        command = ["tenure-aiida", "setup", PROFILE, "--not-default", "--broker", address, "--key-file", key_file]
        assert address in aiida.run(*command)
        aiida.verdi("-p", PROFILE, "config", "set", "daemon.timeout", 60)
        yield broker
        aiida.verdi("-p", PROFILE, "daemon", "stop")


def test_processes_run_through_a_broker_with_tls_and_a_key(aiida: Installation, remote: Broker, tmp_path: Path) -> None:
    status = aiida.verdi("-p", PROFILE, "status")
    assert "tls://localhost" in status and KEY not in status
    aiida.verdi("-p", PROFILE, "daemon", "start", 1)
    script, steps = tmp_path / "submit.py", tmp_path / "steps"
    script.write_text(SUBMIT.format(path=str(steps)))
    pk = aiida.verdi("-p", PROFILE, "run", script).split()[-1]
    until("the process has ended", lambda: "Finished [0]" in aiida.verdi("-p", PROFILE, "process", "show", pk))
    assert [line.split()[0] for line in steps.read_text().splitlines()] == ["0", "1", "2"]
    # The worker that did it shows the key to no process.
    worker = Path(f"/proc/{steps.read_text().split()[1]}/cmdline").read_bytes()
    assert b"daemon" in worker and KEY.encode() not in worker


def test_a_profile_is_not_made_for_a_broker_that_does_not_answer(aiida: Installation, tmp_path: Path) -> None:
    for wrong, why in (
        (("--broker", "http://host"), "write host:port"),
        (("--broker", f"unix:{tmp_path}/none.sock"), "no broker answered"),
        (("--broker", "127.0.0.1:1", "--key-file", tmp_path / "none"), "none"),
    ):
        assert why in aiida.run("tenure-aiida", "setup", "unreachable", *wrong, fails=True)
        assert why in aiida.run("tenure-aiida", "switch", "test", *wrong, fails=True)
    assert "unreachable" not in aiida.verdi("profile", "list")
    assert "none.sock" not in aiida.run("tenure-aiida", "env")
