"""A communicator for `kiwipy <https://github.com/aiidateam/kiwipy>`_ programs (AiiDA, plumpy) on a Tenure broker.

:class:`Communicator` has the whole contract of ``kiwipy.Communicator`` and the additions of its RabbitMQ communicator:
named task queues, ``next_task``, ``server_properties`` and close callbacks.

>>> with Communicator(broker.address, namespace="kiwi-example") as communicator:
...     _ = communicator.add_task_subscriber(lambda _, body: body * 2)
...     communicator.task_send(21).result(timeout=30)
42
"""

from .communicator import Communicator
from .queue import IncomingTask, TaskQueue

__all__ = ["Communicator", "IncomingTask", "TaskQueue"]
