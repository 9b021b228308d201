"""Tenure, the task broker for work that takes minutes to days, for Python.

- :class:`Client` and :class:`SyncClient` submit tasks, steer them, look at them, wait for them, watch events, call
  other programs, and publish and subscribe.
- :class:`Worker` runs tasks. Its heartbeats and reconnects do not depend on the interpreter: a handler that holds its
  lock for minutes, or blocks the event loop, loses nothing.
- :class:`App` makes tasks of plain functions: ``@app.task()``, ``f.submit(…)``, ``python -m tenure work module:app``.
"""

from ._native import __version__
from ._verbs import NewMessage
from .app import App, Batch, Task
from .client import Client
from .context import Context, Fail, GiveBack, Interrupt, TaskInterrupted, current_context
from .errors import (
    BadSetting,
    BodyTooLarge,
    Busy,
    CannotDecode,
    CannotEncode,
    Closed,
    ConnectionLost,
    Forked,
    NameTaken,
    NobodyThere,
    Refused,
    ResultNotEncodable,
    ResultTimeout,
    StaleAttempt,
    TaskCancelled,
    TaskFailed,
    TenureError,
    TooLate,
    UnknownOutcome,
    UnknownTask,
    Unreachable,
    WrongAddress,
    WrongKey,
    WrongState,
    WrongVersion,
)
from .handle import SyncTaskHandle, TaskHandle
from .records import (
    Accepted,
    Broadcast,
    Counts,
    Ended,
    Event,
    EventGap,
    Gap,
    LimitInfo,
    Message,
    Missed,
    Published,
    QueueInfo,
    Response,
    TaskInfo,
    TopicInfo,
    Why,
    WorkerInfo,
)
from .submission import Submission
from .subscription import ConnectionState, GapRecoveryMode, ReconnectionPolicy, Subscription, SyncSubscription
from .sync_client import SyncClient
from .talk import Call, CallCancelled, CallFailed, SyncCall
from .worker import Worker

__all__ = [
    "Accepted",
    "App",
    "BadSetting",
    "Batch",
    "BodyTooLarge",
    "Broadcast",
    "Busy",
    "Call",
    "CallCancelled",
    "CallFailed",
    "CannotDecode",
    "CannotEncode",
    "Client",
    "Closed",
    "ConnectionLost",
    "ConnectionState",
    "Context",
    "Counts",
    "Ended",
    "Event",
    "EventGap",
    "Fail",
    "Forked",
    "Gap",
    "GapRecoveryMode",
    "GiveBack",
    "Interrupt",
    "LimitInfo",
    "Message",
    "Missed",
    "NameTaken",
    "NewMessage",
    "NobodyThere",
    "Published",
    "QueueInfo",
    "ReconnectionPolicy",
    "Refused",
    "Response",
    "ResultNotEncodable",
    "ResultTimeout",
    "StaleAttempt",
    "Submission",
    "Subscription",
    "SyncCall",
    "SyncClient",
    "SyncSubscription",
    "SyncTaskHandle",
    "Task",
    "TaskCancelled",
    "TaskFailed",
    "TaskHandle",
    "TaskInfo",
    "TaskInterrupted",
    "TenureError",
    "TooLate",
    "TopicInfo",
    "UnknownOutcome",
    "UnknownTask",
    "Unreachable",
    "Why",
    "Worker",
    "WorkerInfo",
    "WrongAddress",
    "WrongKey",
    "WrongState",
    "WrongVersion",
    "__version__",
    "current_context",
]
