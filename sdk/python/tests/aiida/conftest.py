"""A real AiiDA installation with a real daemon, for the tests of the broker plugin."""

from __future__ import annotations

import shutil
from collections.abc import Iterator

import pytest
from installation import Installation


@pytest.fixture(scope="session")
def aiida(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    """An AiiDA installation. Its daemon is not running between tests."""
    folder = tmp_path_factory.mktemp("aiida")
    made = Installation(folder)
    yield made
    made.close()
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def daemon(aiida: Installation) -> Iterator[Installation]:
    """The installation with one daemon worker."""
    aiida.start_daemon()
    yield aiida
    aiida.stop_daemon()
