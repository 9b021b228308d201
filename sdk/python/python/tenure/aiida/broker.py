"""The broker plugin: entry point ``tenure`` in the group ``aiida.brokers``."""

from __future__ import annotations

import logging
import os
import sys
import threading
import weakref
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Callable, Optional

import kiwipy
from aiida.brokers import Broker

from .._fields import FieldLogger
from ..errors import TenureError
from ..kiwi import Communicator
from ..kiwi._link import unpack
from ..records import TaskInfo
from ..sync_client import SyncClient
from ._config import REMOVED, BrokerConfig, warn_of_long_lease
from ._service import Service
from ._terms import PROCESSES, WORKCHAINS_OF_0_2, held, key_of, pk_of, terms_of
from ._unsent import Unsent

log = FieldLogger("tenure.aiida")

#: The states of a task that has not ended.
ACTIVE = ("created", "delayed", "ready", "assigned", "running", "paused")
#: How often a program looks whether the broker that it started is still there.
WATCH_SECONDS = 1.0


class TenureBroker(Broker):  # type: ignore[misc]
    """The broker of an AiiDA profile."""

    def __init__(self, profile: Any) -> None:
        self._profile = profile
        self._config = BrokerConfig.read(profile.process_control_config)
        self._service = None if self._config.address else Service(service_directory())
        self._communicator: Optional[_ProfileCommunicator] = None
        self._process = 0
        self._inherited: list[Communicator] = []
        self._closed: Optional[threading.Event] = None

    def __str__(self) -> str:
        where = f"Tenure @ {self.address} (namespace {self.namespace})"
        try:
            with self.client(connect_timeout=2.0) as client:
                counts, workers = client.counts(), _workers(client)
        except TenureError as error:
            return f"{where} <not reachable: {error}>"
        tasks = counts.by_state
        waiting = tasks.ready + tasks.delayed + tasks.created
        running = tasks.running + tasks.assigned
        return f"{where}: {waiting} tasks wait, {running} run, {tasks.paused} are paused, {workers} workers"

    @property
    def address(self) -> str:
        """Where the broker is."""
        return self._config.address or self._own_service().address

    @property
    def namespace(self) -> str:
        """The profile's part of the broker."""
        return self._config.namespace or f"aiida-{self._profile.uuid}"

    @property
    def config(self) -> BrokerConfig:
        """The settings of the profile."""
        return self._config

    @property
    def service(self) -> Optional[Service]:
        """The broker of this installation; nothing if the profile names an address."""
        return self._service

    def client(self, connect_timeout: float = 10.0) -> SyncClient:
        """A client in the profile's namespace. The broker is not started for it."""
        return SyncClient(
            self.address, namespace=self.namespace, key=self._config.secret(), connect_timeout=connect_timeout
        )

    def environment(self) -> dict[str, str]:
        """The variables by which the command ``tenure`` finds the broker, and the profile's part of it."""
        found = {"TENURE_BROKER": self.address, "TENURE_NAMESPACE": self.namespace}
        if self._config.key is not None:
            found["TENURE_KEY"] = self._config.key
        elif self._config.key_file is not None:
            found["TENURE_KEY_FILE"] = self._config.key_file
        return found

    def get_communicator(self) -> Communicator:
        """The communicator of this program; after a fork, the child has its own. Starts the broker if none answers."""
        self._leave_inherited()
        if self._communicator is None:
            if self._service is not None:
                self._service.ensure()
            self._communicator, self._process = self._connect(), os.getpid()
            if self._service is not None:
                self._closed = threading.Event()
                watch(self._service, self._communicator, self._closed)
        return self._communicator

    def iterate_tasks(self) -> Iterator[ListedTask]:
        """The tasks of the profile that have not ended, whether they wait or a worker holds them."""
        self.get_communicator()
        with self.client() as client:
            for info in client.list(states=ACTIVE):
                task = ListedTask.read(self, client, info)
                if task is not None:
                    yield task

    def check_service_reachable(self) -> bool:
        """Whether the broker answers."""
        return bool(self.probe_service_status()["connected"])

    def probe_service_status(self) -> dict[str, Any]:
        """What the broker tells of itself. Never raises."""
        try:
            with self.client(connect_timeout=5.0) as client:
                counts, workers = client.counts(), _workers(client)
        except Exception as error:
            return {"connected": False, "error": f"{type(error).__name__}: {error}"}
        tasks = counts.by_state
        return {
            "connected": True,
            "address": self.address,
            "namespace": self.namespace,
            "pid": self._service.pid() if self._service is not None else None,
            "pending_tasks": tasks.ready + tasks.delayed + tasks.created,
            "processing_tasks": tasks.running + tasks.assigned,
            "workers": workers,
        }

    def close(self) -> None:
        """Closes the communicator. The broker goes on."""
        self._leave_inherited()
        if self._closed is not None:
            self._closed.set()
        communicator, self._communicator = self._communicator, None
        if communicator is not None:
            communicator.close()

    def _leave_inherited(self) -> None:
        """After a fork the communicator belongs to the parent: its threads and its connection are there."""
        if self._communicator is not None and self._process != os.getpid():
            # It is kept: to take it apart would need its threads.
            self._inherited.append(self._communicator)
            self._communicator, self._closed = None, None

    def _own_service(self) -> Service:
        assert self._service is not None
        return self._service

    def _connect(self) -> _ProfileCommunicator:
        from aiida import __version__
        from aiida.manage.configuration import get_config_option

        show_logs()
        config = self._config
        options: dict[str, Any] = {"lease": config.lease, "version": f"aiida-core {__version__}"}
        options["light_slots"] = config.workchain_slots
        options["heartbeat"] = min(5.0, config.lease / 4)
        options["lost_after"] = config.lease / 2
        # AiiDA has no lock of its own: a worker whose lease is over must not make another step.
        # Where its connection leads straight to the broker, a closed one means that it is dead.
        options["die_with_lease"] = options["tasks_die"] = is_daemon_worker()
        if is_daemon_worker():
            warn_of_long_lease(config)
        unsent = Unsent(lambda task: Communicator.task_send(communicator, task, no_reply=True))
        communicator = _ProfileCommunicator(
            self.address,
            namespace=self.namespace,
            key=config.secret(),
            scope="aiida",
            task_queue=PROCESSES,
            task_prefetch_count=get_config_option("daemon.worker_process_slots"),
            more_task_queues={WORKCHAINS_OF_0_2: config.workchain_slots},
            timeout=task_timeout(),
            task_terms=lambda body: unsent.terms_of(body) or terms_of(body, config),
            task_key=key_of,
            on_fenced=fence,
            on_cancel=lambda task, body, reason: kill(self, task, body, reason),
            worker_options=options,
        )
        communicator.broker, communicator.unsent = weakref.ref(self), unsent
        return communicator


class _ProfileCommunicator(Communicator):
    """The communicator of a profile. A daemon worker looks once whether the database and the broker agree."""

    broker: Callable[[], Optional[TenureBroker]] = staticmethod(lambda: None)
    unsent: Unsent

    def add_task_subscriber(self, subscriber: Callable[..., Any], identifier: Any = None) -> Any:
        broker = self.broker()
        if broker is not None and is_daemon_worker():
            from ._reconcile import mend_later, report

            mend_later(broker, self, report(broker))
        return super().add_task_subscriber(subscriber, identifier)

    def task_send(self, task: Any, no_reply: bool = False) -> Optional[Future[Any]]:
        """Sends a task. One that continues a process is held until the process has ended. A sender that does not wait
        for that (``nowait``) learns at once that the broker has the task.
        """
        pk = pk_of(task)
        if pk is None or not task["args"].get("nowait"):
            if pk is None or not no_reply:
                return super().task_send(held(task), no_reply)
            self._send_surely(held(task))
            return None
        self._send_surely(held(task))
        return None if no_reply else _resolved(_resolved(pk))

    def close(self) -> None:
        """Closes the communicator."""
        self.unsent.close()
        super().close()

    def _send_surely(self, task: Any) -> None:
        """Sends a task. A worker of the daemon keeps it if the broker is away: the exception would end the process that
        submits another.
        """
        # While others are kept, the broker is away: to wait once more would hold up every process of the worker.
        if not (self.unsent and self._keep(task)):
            try:
                super().task_send(task, no_reply=True)
            except kiwipy.TimeoutError:
                if not self._keep(task):
                    raise

    def _keep(self, task: Any) -> bool:
        broker = self.broker()
        if broker is None or not is_daemon_worker():
            return False
        return self.unsent.keep(task, terms_of(task, broker.config))


def _workers(client: SyncClient) -> int:
    """How many workers are there. Each has a second name for the queue that version 0.2 used."""
    return sum(one.presence == "live" and PROCESSES in one.queues for one in client.workers())


def _resolved(value: Any) -> Future[Any]:
    future: Future[Any] = Future()
    future.set_result(value)
    return future


class ListedTask:
    """A task of a profile, as AiiDA's ``verdi process repair`` looks at it. To look at it does not take it."""

    def __init__(self, broker: TenureBroker, info: TaskInfo, body: Any) -> None:
        self._broker = broker
        self.info = info
        self.body = body

    @classmethod
    def read(cls, broker: TenureBroker, client: SyncClient, info: TaskInfo) -> Optional[ListedTask]:
        """A task with its body; nothing if it has gone or is none of AiiDA's."""
        from .. import codec

        try:
            return cls(broker, info, codec.decode(unpack(client.body(info.id))["body"]))
        except (TenureError, ValueError, KeyError):
            return None

    @contextmanager
    def processing(self) -> Iterator[_Outcome]:
        """Removes the task if its result is set in the block."""
        outcome = _Outcome()
        yield outcome
        if outcome.is_set:
            self.remove()

    def remove(self) -> None:
        """Removes the task."""
        try:
            with self._broker.client() as client:
                client.cancel(self.info.id, REMOVED)
        except TenureError as error:
            fields = {"pk": pk_of(self.body), "task": self.info.id, "error": str(error)}
            log.warning("a task could not be removed", extra=fields)


class _Outcome:
    is_set = False

    def set_result(self, _: Any) -> None:
        self.is_set = True


def task_timeout() -> float:
    """How long a request may take. Versions before 2.9 have the option under another name."""
    from aiida.common.exceptions import ConfigurationError
    from aiida.manage.configuration import get_config_option

    try:
        return float(get_config_option("broker.task_timeout"))
    except ConfigurationError:
        return float(get_config_option("rmq.task_timeout"))


def service_directory() -> Path:
    """Where the broker of this AiiDA installation lives."""
    from aiida.manage.configuration import get_config

    return Path(get_config().dirpath) / "tenure"


def is_daemon_worker() -> bool:
    """Whether this program is a worker of AiiDA's daemon (``verdi daemon worker``)."""
    return "daemon" in sys.argv and "worker" in sys.argv


class _ToAiida(logging.Handler):
    """Passes lines on to the handlers that AiiDA's own logger has at that moment: AiiDA replaces them now and then."""

    def emit(self, record: logging.LogRecord) -> None:
        aiida = logging.getLogger("aiida")
        if aiida.isEnabledFor(record.levelno):
            # What the root logger has gets the line from there.
            reached = logging.getLogger().handlers
            for handler in aiida.handlers:
                if record.levelno >= handler.level and handler not in reached:
                    handler.handle(record)


def show_logs() -> None:
    """Lets the lines of this package go where AiiDA's go: to the terminal, or to the log of the daemon. AiiDA gives
    handlers to a fixed list of loggers.
    """
    logger = logging.getLogger("tenure")
    if not any(isinstance(handler, _ToAiida) for handler in logger.handlers):
        logger.addHandler(_ToAiida())


def fence(task: str, body: Any, reason: str) -> None:
    """The broker has given a process of this program to another worker. A worker of the daemon does not get here: it is
    dead by then (``die_with_lease``), and circus has started a new one.
    """
    fields = {"pk": pk_of(body), "task": task, "reason": reason}
    log.error("another worker has a process of this program", extra=fields)


def kill(broker: TenureBroker, task: str, body: Any, reason: str) -> bool:
    """A client cancels the task of a process that runs here: the process is killed, as ``verdi process kill`` does."""
    pk = pk_of(body)
    if pk is None or reason == REMOVED:
        return False

    def tell() -> None:
        from plumpy.process_comms import RemoteProcessThreadController

        try:
            RemoteProcessThreadController(broker.get_communicator()).kill_process(pk)
        except Exception as error:
            log.error("a process could not be killed", extra={"pk": pk, "task": task, "error": str(error)})

    log.warning("the task of a process is cancelled: the process is killed", extra={"pk": pk, "reason": reason})
    # The call is answered on the thread that would wait for it.
    threading.Thread(target=tell, name="tenure-aiida-kill", daemon=True).start()
    return True


def watch(service: Service, communicator: Communicator, closed: threading.Event) -> None:
    """Starts the broker again if it disappears while a program uses it, unless a user stopped it."""
    found = weakref.ref(communicator)

    def look() -> None:
        while not closed.wait(WATCH_SECONDS):
            one = found()
            if one is None or one.is_closed():
                return
            if not one.is_connected() and not service.was_stopped():
                try:
                    if service.ensure():
                        log.warning("the broker was gone and has been started again")
                except (TenureError, OSError) as error:
                    log.error("the broker is gone and cannot be started", extra={"error": str(error)})
            del one

    threading.Thread(target=look, name="tenure-aiida-watch", daemon=True).start()
