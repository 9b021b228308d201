"""The communicator: everything of ``kiwipy.Communicator``, on a Tenure broker."""

from __future__ import annotations

import contextlib
import json
import logging
import weakref
from collections.abc import Hashable, Mapping
from concurrent.futures import Future
from typing import Any, Callable, Optional

import kiwipy

from .. import codec
from .._settings import settings
from ..errors import Closed
from ._broadcast import Broadcasts
from ._link import Decoder, Encoder, Link, short_name
from ._rpc import Rpc
from ._send import Sending, Terms
from ._work import Key, OnCancel, OnFenced, Work
from .queue import TaskQueue

log = logging.getLogger("tenure.kiwi")

#: How many tasks a communicator takes at once by default.
PREFETCH_COUNT = 200
#: How long a request may take unless told otherwise.
TIMEOUT = 10.0


class Communicator(kiwipy.Communicator):  # type: ignore[misc]
    """A communicator for kiwipy programs.

    Subscribers are registered here first and never fail because the broker is away; everything is registered again when
    it is back. Tasks are on the broker's disk when ``task_send`` returns, and belong to at most one communicator at a
    time. The connection and its heartbeats do not depend on the interpreter.

    Subscribers run on a thread of the communicator: they should return soon, or return a future.

    >>> communicator = Communicator(broker.address, namespace="kiwi-example")
    >>> _ = communicator.add_rpc_subscriber(lambda _, message: message.upper(), "echo")
    >>> communicator.rpc_send("echo", "hello").result(timeout=30)
    'HELLO'
    >>> communicator.close()
    """

    def __init__(
        self,
        address: Optional[str] = None,
        *,
        namespace: Optional[str] = None,
        key: Optional[str] = None,
        scope: str = "kiwi",
        task_queue: str = "tasks",
        task_prefetch_count: int = PREFETCH_COUNT,
        more_task_queues: Optional[Mapping[str, int]] = None,
        timeout: float = TIMEOUT,
        encoder: Encoder = codec.encode,
        decoder: Decoder = codec.decode,
        task_terms: Optional[Terms] = None,
        task_key: Optional[Key] = None,
        on_fenced: Optional[OnFenced] = None,
        on_cancel: Optional[OnCancel] = None,
        worker_options: Optional[Mapping[str, Any]] = None,
    ) -> None:
        """Connects.

        ``scope`` separates the subscribers of programs in one namespace. ``more_task_queues`` names further queues of
        the default task subscribers, each with the number of tasks that are taken from it at once. ``task_terms`` gets
        the body of a task and returns what the submission says beside it (see :class:`tenure.Submission`), such as its
        queue or priority. Tasks with the same ``task_key`` are the same work: one that comes while it runs here shares
        its result. ``on_fenced`` is called with the task, its body and the reason when the broker has given up an
        attempt that may still run here. ``on_cancel`` is called with the same when a client cancels a task that runs
        here, and returns whether it ends the work. ``worker_options`` go to :class:`tenure.Worker`.
        """
        self._link = Link(settings(address, namespace, key, None, timeout), scope, timeout, encoder, decoder, self)
        self._task_key: Key = task_key or _no_key
        self._on_fenced: OnFenced = on_fenced or _ignore
        self._on_cancel: OnCancel = on_cancel or _refuse
        self._worker_options = dict(worker_options or {})
        self._rpc = Rpc(self._link)
        self._broadcasts = Broadcasts(self._link)
        self._sending = Sending(self._link, self._rpc, task_terms or _no_terms)
        self._works: list[Work] = []
        self._close_callbacks: list[Callable[[], Optional[Callable[..., Any]]]] = []
        self._tasks = self._make_queue(task_queue, task_prefetch_count, more_task_queues or {})

    def is_closed(self) -> bool:
        """Whether it was closed."""
        return self._link.closed

    def close(self) -> None:
        """Closes the communicator. Tasks that have not ended go back to their queues, to the front."""
        link = self._link
        if link.closed:
            return
        for work in self._works:
            work.close()
        self._broadcasts.close(link.timeout)
        link.closed = True
        self._rpc.close()
        self._broadcasts.stop()
        link.dispatcher.close()
        with contextlib.suppress(Closed):
            link.client.close()
        for found in self._close_callbacks:
            callback = found()
            if callback is not None:
                try:
                    callback(self, None)
                except Exception:
                    log.exception("a close callback failed")

    def add_close_callback(self, callback: Callable[..., Any], weak: bool = False) -> None:
        """Calls this with the communicator and ``None`` after it was closed."""
        self._link.ensure_open()
        self._close_callbacks.append(weakref.ref(callback) if weak else lambda: callback)

    @property
    def server_properties(self) -> dict[str, Any]:
        """What the broker tells of itself."""
        self._link.ensure_open()
        told = json.loads(self._link.client.welcome())
        software = str(told.pop("software", "tenure"))
        return {**told, "product": "Tenure", "version": software.rpartition(" ")[2], "platform": software}

    def is_connected(self) -> bool:
        """Whether the broker hears this communicator at this moment."""
        return not self._link.closed and self._link.is_connected()

    def add_task_subscriber(self, subscriber: Callable[..., Any], identifier: Any = None) -> Any:
        """Adds a subscriber of tasks. Several are tried in their order until one does not reject the task."""
        return self._tasks.add_task_subscriber(subscriber, identifier)

    def remove_task_subscriber(self, identifier: Any) -> None:
        """Removes a subscriber of tasks; raises ``ValueError`` if there is none."""
        self._tasks.remove_task_subscriber(identifier)

    def task_send(self, task: Any, no_reply: bool = False) -> Optional[Future[Any]]:
        """Sends a task. It is on the broker's disk when this returns. The future is the worker's result."""
        return self._tasks.task_send(task, no_reply)

    def task_queue(self, queue_name: str, prefetch_size: int = 0, prefetch_count: int = PREFETCH_COUNT) -> TaskQueue:
        """A queue by its name. ``prefetch_size`` is there for programs that give it; it has no meaning here."""
        self._link.ensure_open()
        return self._make_queue(queue_name, prefetch_count or PREFETCH_COUNT, {})

    def add_rpc_subscriber(self, subscriber: Callable[..., Any], identifier: Any = None) -> Any:
        """Adds a subscriber of calls to this identifier."""
        self._link.ensure_open()
        return self._rpc.add(subscriber, identifier)

    def remove_rpc_subscriber(self, identifier: Any) -> None:
        """Removes a subscriber of calls; raises ``ValueError`` if there is none."""
        self._link.ensure_open()
        self._rpc.remove(identifier)

    def rpc_send(self, recipient_id: Any, msg: Any) -> Future[Any]:
        """Calls a subscriber. Raises ``kiwipy.UnroutableError`` at once if there is none."""
        self._link.ensure_open()
        return self._rpc.send(recipient_id, msg)

    def add_broadcast_subscriber(self, subscriber: Callable[..., Any], identifier: Any = None) -> Any:
        """Adds a subscriber of broadcasts."""
        self._link.ensure_open()
        return self._broadcasts.add(subscriber, identifier)

    def remove_broadcast_subscriber(self, identifier: Any) -> None:
        """Removes a subscriber of broadcasts; raises ``ValueError`` if there is none."""
        self._link.ensure_open()
        self._broadcasts.remove(identifier)

    def broadcast_send(self, body: Any, sender: Any = None, subject: Any = None, correlation_id: Any = None) -> bool:
        """Sends a broadcast. While the broker is away it is kept, and sent later."""
        self._link.ensure_open()
        return self._broadcasts.send(body, sender, subject, correlation_id)

    def _make_queue(self, name: str, slots: int, more: Mapping[str, int]) -> TaskQueue:
        queues = {short_name(name): slots, **{short_name(other): count for other, count in more.items()}}
        work = Work(self._link, queues, self._worker_options, self._task_key, self._on_fenced, self._on_cancel)
        self._works.append(work)
        return TaskQueue(self._link, name, work, self._sending)


def _no_terms(body: Any) -> dict[str, Any]:
    return {}


def _no_key(body: Any) -> Optional[Hashable]:
    return None


def _ignore(task: str, body: Any, reason: str) -> None:
    return None


def _refuse(task: str, body: Any, reason: str) -> bool:
    return False
