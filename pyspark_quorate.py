"""Where Spark looks for data sources by itself: in modules called ``pyspark_*``."""

from quorate.client.spark import QuorateDataSource as DefaultSource

__all__ = ["DefaultSource"]
