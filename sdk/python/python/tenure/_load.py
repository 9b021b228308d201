"""Finding the app of ``module:app``."""

from __future__ import annotations

import importlib

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
