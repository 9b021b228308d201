"""A plugin of pytest: the tests of kiwipy, plumpy and aiida-core run with Tenure in the place of RabbitMQ.

``cargo xtask python --upstream CHECKOUT -- ARGUMENTS`` runs the tests of a checkout with it. Nothing in the checkout
changes: the plugin replaces what connects to RabbitMQ by what connects to a private broker.
"""

from __future__ import annotations

import hashlib
import os
from typing import Any, Optional

from tenure import _background, codec
from tenure.kiwi import Communicator
from tenure.testing import Broker

#: How long a request may take on a busy machine. The tests themselves wait for five seconds.
TIMEOUT = 30.0

_broker: Optional[Broker] = None


def pytest_configure(config: Any) -> None:
    """Starts the broker, and puts it in the place of RabbitMQ."""
    global _broker
    _broker = Broker()
    replace_in_kiwipy(_broker.address)
    os.environ["TENURE_UPSTREAM_BROKER"] = _broker.address
    try:
        import aiida.manage.configuration as configuration
    except ImportError:
        return
    _replace_in_aiida(configuration, _broker.address)


def pytest_unconfigure(config: Any) -> None:
    """Ends the broker."""
    if _broker is not None:
        _broker.close()


class _Replacement(Communicator):
    """A communicator with the private attribute that plumpy's tests touch."""

    _loop = property(lambda self: _background.loop())


def replace_in_kiwipy(address: str) -> None:
    """Lets what would connect to RabbitMQ connect to this broker."""
    from kiwipy import rmq
    from kiwipy.rmq import defaults

    def connect(
        connection_params: Any = None,
        message_exchange: str = defaults.MESSAGE_EXCHANGE,
        task_queue: str = defaults.TASK_QUEUE,
        task_prefetch_count: int = defaults.TASK_PREFETCH_COUNT,
        encoder: Any = None,
        decoder: Any = None,
        **_: Any,
    ) -> Communicator:
        return _Replacement(
            address,
            # Programs hear each other if they have the same exchange.
            namespace=hashlib.sha256(message_exchange.encode()).hexdigest()[:32],
            task_queue=task_queue,
            task_prefetch_count=task_prefetch_count or 200,
            timeout=TIMEOUT,
            encoder=encoder or codec.encode,
            decoder=decoder or codec.decode,
        )

    rmq.RmqThreadCommunicator.connect = staticmethod(connect)


def _replace_in_aiida(configuration: Any, address: str) -> None:
    """Profiles of tests that should have RabbitMQ get Tenure. The daemon of such a profile knows nothing of this."""
    create = configuration.create_profile

    def create_profile(*arguments: Any, **settings: Any) -> Any:
        if settings.get("is_test_profile") and settings.get("broker_backend") == "core.rabbitmq":
            settings.update(broker_backend="tenure", broker_config={"address": address})
        return create(*arguments, **settings)

    configuration.create_profile = create_profile
