"""Every exception reaches another process as it was."""

from __future__ import annotations

import pickle
from collections.abc import Iterator

import pytest
import tenure
from tenure import _binary, errors
from tenure.aiida import _profiles, _service
from tenure.context import Interrupt

#: Those that are not made with a message alone.
MADE = {
    tenure.CallFailed: tenure.CallFailed("calculator", b"\xff no"),
    tenure.TaskInterrupted: tenure.TaskInterrupted(Interrupt("cancel", "enough")),
    tenure.Fail: tenure.Fail("no licence", exit_code=75, final=True, result=b"part"),
    tenure.TaskCancelled: tenure.TaskCancelled("cancelled", task="t"),
    tenure.TaskFailed: tenure.TaskFailed("failed", task="t", exit_code=3, worker="w", traceback="at line 1"),
}


def all_classes(base: type[tenure.TenureError]) -> Iterator[type[tenure.TenureError]]:
    yield base
    for kind in base.__subclasses__():
        yield from all_classes(kind)


CLASSES = sorted(set(all_classes(tenure.TenureError)), key=lambda kind: kind.__qualname__)


def same_again(error: tenure.TenureError) -> None:
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error)
    assert (str(again), again.args, vars(again)) == (str(error), error.args, vars(error))


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__qualname__)
def test_an_exception_is_pickled_with_everything_it_says(kind: type[tenure.TenureError]) -> None:
    same_again(MADE.get(kind) or kind("the message"))


@pytest.mark.parametrize("code", sorted(errors._CODES))
def test_a_refusal_is_pickled_with_its_code_and_its_facts(code: str) -> None:
    made = errors.make("refused", "the message", code, '{"task": "t"}')
    assert (str(made), made.code, made.facts) == ("the message", code, {"task": "t"})
    same_again(made)


def test_all_classes_are_looked_at() -> None:
    for kind in (tenure.CallFailed, _binary.NoBroker, _profiles.ProfileError, _service.BrokerNotStarted):
        assert kind in CLASSES
    assert len(CLASSES) >= 30
