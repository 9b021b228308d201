"""The examples in docstrings run."""

from __future__ import annotations

import asyncio
import doctest
import importlib
import pkgutil

import pytest
import tenure
from tenure.testing import Broker

MODULES = sorted(
    module.name for module in pkgutil.walk_packages(tenure.__path__, "tenure.") if not module.name.endswith("__main__")
)


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_of_a_module_run(name: str, shared_broker: Broker) -> None:
    module = importlib.import_module(name)
    names = {**vars(module), "broker": shared_broker, "asyncio": asyncio, "SyncClient": tenure.SyncClient}
    failed, _ = doctest.testmod(
        module, extraglobs=names, optionflags=doctest.ELLIPSIS | doctest.IGNORE_EXCEPTION_DETAIL
    )
    assert failed == 0


def test_there_are_examples() -> None:
    finder = doctest.DocTestFinder(exclude_empty=True)
    found = [test for name in MODULES for test in finder.find(importlib.import_module(name)) if test.examples]
    assert len(found) >= 10
    assert any(test.name.startswith("tenure.kiwi.") for test in found)
