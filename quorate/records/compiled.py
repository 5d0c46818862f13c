"""Where the compiled functions of ``_speed.c`` come from, if there are any and they are wanted."""

import os
from importlib import import_module
from typing import Any


def load_compiled() -> Any:
    """Return the compiled module; None without one, or with QUORATE_PURE_PYTHON=1 set.

    It is not there if there was no compiler when Quorate was installed; the variable is for tests
    and comparisons.
    """
    if os.environ.get("QUORATE_PURE_PYTHON", "0") not in {"", "0"}:
        return None
    try:
        return import_module("quorate.records._speed")
    except ImportError:
        return None
