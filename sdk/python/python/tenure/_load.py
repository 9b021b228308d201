"""What every process of a worker does first: it finds the app of ``module:app``, and shows its logs."""

from __future__ import annotations

import importlib
import logging

from .app import App
from .errors import BadSetting


def load_app(target: str) -> App:
    """The app that ``module:app`` names; ``module`` alone means ``module:app``."""
    module, _, name = target.partition(":")
    try:
        found = importlib.import_module(module)
    except ImportError as error:
        raise BadSetting(
            f"cannot import {module!r} ({error}): run this in the folder of the module, or set PYTHONPATH"
        ) from error
    app = getattr(found, name or "app", None)
    if not isinstance(app, App):
        raise BadSetting(f"{module} has no tenure.App called {name or 'app'!r}: write module:name")
    return app


def log_to_stderr(level: str) -> None:
    """Shows what this process logs."""
    logging.basicConfig(level=level, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
