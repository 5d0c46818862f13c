"""The PySpark connector: ``spark.read.format("quorate")``, with the options of Spark's own source.

Spark finds it by itself through the top-level module ``pyspark_quorate``.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from quorate.client.spark.source import QuorateDataSource

__all__ = ["QuorateDataSource"]


def __getattr__(name: str) -> Any:
    """Import the data source when it is asked for: only it needs PySpark."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module("quorate.client.spark.source"), name)
