"""Where compiled functions come from, if there are any and they are wanted.

``_batch.c`` sums up and checks batches, ``_speed.c`` collects, lays out and reads records, and
``_columns.c`` makes columns of them for Apache Arrow.
"""

import os
from importlib import import_module
from typing import Any


def load_compiled(name: str) -> Any:
    """Return a compiled module; None without it, or with QUORATE_PURE_PYTHON=1 set.

    It is not there if there was no compiler when Quorate was installed, or none of its functions
    would be of use on this processor; the variable is for tests and comparisons.
    """
    if os.environ.get("QUORATE_PURE_PYTHON", "0") not in {"", "0"}:
        return None
    try:
        return import_module(f"quorate.records.{name}")
    except ImportError:
        return None
