"""Tenure as the message broker of `AiiDA <https://www.aiida.net>`_, in the place of RabbitMQ.

``tenure-aiida setup PROFILE`` makes a profile, ``tenure-aiida switch PROFILE`` changes one; ``verdi`` works as before.
"""

from .broker import TenureBroker

__all__ = ["TenureBroker"]
