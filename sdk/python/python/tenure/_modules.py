"""Names of modules that submitter and worker agree on, also if one of them runs the module as its main program."""

from __future__ import annotations

import os
import sys
from types import ModuleType
from typing import Optional


def module_name(name: str) -> str:
    """The name under which others import a module: that of the file, if it is the main program."""
    return (_main_name() or name) if name == "__main__" else name


def find_module(name: str) -> Optional[ModuleType]:
    """The imported module of this name."""
    found = sys.modules.get(name)
    if found is None and name == _main_name():
        found = sys.modules.get("__main__")
    return found


def _main_name() -> Optional[str]:
    main = sys.modules.get("__main__")
    spec = getattr(main, "__spec__", None)
    if spec is not None and spec.name:
        name: str = spec.name
        return name[: -len(".__main__")] if name.endswith(".__main__") else name
    file = getattr(main, "__file__", None)
    return os.path.splitext(os.path.basename(file))[0] if file else None
