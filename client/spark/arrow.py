"""PyArrow, which has no types of its own: Any, here and nowhere else."""

from __future__ import annotations

from importlib import import_module
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

pa: Final[Any] = import_module("pyarrow")
pc: Final[Any] = import_module("pyarrow.compute")

Array: TypeAlias = Any
RecordBatch: TypeAlias = Any
Schema: TypeAlias = Any

Integers: TypeAlias = npt.NDArray[np.int64]
Bytes: TypeAlias = npt.NDArray[np.uint8]
