"""The PySpark connector: ``spark.read.format("quorate")``, with the options of Spark's own source.

Spark finds it by itself through the top-level module ``pyspark_quorate``.
"""

from quorate.client.spark.source import QuorateDataSource

__all__ = ["QuorateDataSource"]
