"""Reconciliation: compares tasks with those of another store, such as the database of your application."""

from __future__ import annotations

from collections.abc import AsyncIterable, Iterable
from dataclasses import dataclass
from typing import Any, Callable, Optional, Union

from . import _native
from ._asks import Asks, SyncAsks
from .errors import BadSetting
from .records import ReconciledTask, read_list
from .submission import Submission

#: How many tasks are handed over at once.
_PAGE = 1_000


@dataclass(frozen=True)
class Declared:
    """A task as the other store knows it: its name, whether it has ended there, and how to submit it if it is missing.

    >>> Declared("job/7", submission=Submission("jobs", b"7")).ended
    False
    """

    name: str
    ended: bool = False
    submission: Optional[Submission] = None

    def said(self) -> tuple[str, bool, Optional[dict[str, Any]]]:
        """What goes to the native client."""
        return self.name, self.ended, None if self.submission is None else self.submission.said()


def _declared(one: Union[Declared, str], prefix: str) -> tuple[str, bool, Optional[dict[str, Any]]]:
    declared = Declared(one) if isinstance(one, str) else one
    if not isinstance(declared, Declared):
        raise BadSetting(f"{one!r} is not a task of the other store: pass its name, or tenure.Declared(…)")
    if not declared.name.startswith(prefix):
        raise BadSetting(f"the name {declared.name!r} does not begin with {prefix!r}: its task would not be found")
    return declared.said()


def _check(tasks: Any) -> None:
    if not callable(tasks):
        raise BadSetting(
            "tasks is not a function: pass one that reads the other store. It is called after the broker has noted the "
            "time, so that tasks which are submitted meanwhile are left alone"
        )


class ReconcileVerbs(Asks):
    """The verb of reconciliation, for asyncio clients."""

    async def reconcile(
        self,
        prefix: str,
        tasks: Callable[[], Union[Iterable[Union[Declared, str]], AsyncIterable[Union[Declared, str]]]],
        *,
        apply: bool = False,
    ) -> list[ReconciledTask]:
        """Compares the tasks whose names begin with ``prefix`` with those of another store, which ``tasks`` reads:
        names of tasks that should exist, or :class:`Declared`. Returns the differences. With ``apply``, the broker
        submits what is missing and cancels what the other store does not know or has ended. Safe to repeat.
        """
        _check(tasks)
        reconciler = await self._ask(lambda client, via: _native.reconcile(client, prefix, apply, via))
        page: list[Any] = []

        async def send() -> None:
            rows = list(page)
            page.clear()
            await self._ask(lambda _, via: reconciler.declare(rows, via))

        read = tasks()
        if isinstance(read, AsyncIterable):
            async for one in read:
                page.append(_declared(one, prefix))
                if len(page) == _PAGE:
                    await send()
        else:
            for one in read:
                page.append(_declared(one, prefix))
                if len(page) == _PAGE:
                    await send()
        await send()
        return read_list(ReconciledTask, await self._ask(lambda _, via: reconciler.finish(via)))


class SyncReconcileVerbs(SyncAsks):
    """The verb of reconciliation, for blocking clients."""

    def reconcile(
        self, prefix: str, tasks: Callable[[], Iterable[Union[Declared, str]]], *, apply: bool = False
    ) -> list[ReconciledTask]:
        """Compares the tasks whose names begin with ``prefix`` with those of another store, which ``tasks`` reads:
        names of tasks that should exist, or :class:`Declared`. Returns the differences. With ``apply``, the broker
        submits what is missing and cancels what the other store does not know or has ended. Safe to repeat.

        >>> def read():
        ...     yield Declared("invoice/7", submission=Submission("invoices", b"7"))
        >>> with SyncClient(broker.address) as client:
        ...     [(task.name, task.difference) for task in client.reconcile("invoice/", read)]
        ...     client.reconcile("invoice/", read, apply=True)[0].applied
        ...     client.reconcile("invoice/", read)
        [('invoice/7', 'missing')]
        True
        []
        """
        _check(tasks)
        reconciler = self._ask(lambda client, via: _native.reconcile(client, prefix, apply, via))
        page: list[Any] = []
        for one in tasks():
            page.append(_declared(one, prefix))
            if len(page) == _PAGE:
                reconciler.declare(page)
                page = []
        reconciler.declare(page)
        return read_list(ReconciledTask, reconciler.finish())
