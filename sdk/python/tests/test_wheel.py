"""One `pip install` gives the package and the `tenure` program with the broker in it."""

from __future__ import annotations

import importlib.metadata
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest
import tenure


def installed() -> bool:
    try:
        return importlib.metadata.version("tenure") == tenure.__version__
    except importlib.metadata.PackageNotFoundError:
        return False


pytestmark = pytest.mark.skipif(not installed(), reason="the package is not installed: run `cargo xtask python`")


def test_the_program_is_beside_the_interpreter() -> None:
    program = Path(sysconfig.get_path("scripts")) / "tenure"
    told = subprocess.run([program, "--version"], capture_output=True, text=True, check=True)
    assert tenure.__version__ in told.stdout


def test_every_verb_can_be_said_through_the_interpreter() -> None:
    command = [sys.executable, "-m", "tenure", "serve", "--help"]
    assert "--data-dir" in subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_the_wheel_has_types() -> None:
    files = importlib.metadata.files("tenure") or []
    names = {file.name for file in files}
    assert {"py.typed", "_native.pyi", "_native.abi3.so"} <= names


def test_the_fixture_is_there_for_other_projects(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text("def test_it(tenure_broker):\n    assert tenure_broker.client().ping() > 0\n")
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", str(tmp_path)], capture_output=True, text=True, cwd=tmp_path
    )
    assert "1 passed" in ran.stdout, ran.stdout
