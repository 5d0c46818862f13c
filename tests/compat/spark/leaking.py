"""A source that lets Spark push filters down: what ours does not do, and why."""

from collections.abc import Iterable, Iterator
from typing import Any

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    Filter,
    InputPartition,
    LessThan,
)


class LeakingReader(DataSourceReader):
    def __init__(self) -> None:
        self.end = 10

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802
        for each in filters:
            if isinstance(each, LessThan):
                self.end = min(self.end, each.value)
            else:
                yield each

    def partitions(self) -> list[InputPartition]:
        return [InputPartition(self.end)]

    def read(self, partition: InputPartition) -> Iterator[tuple[Any, ...]]:
        return iter([(i,) for i in range(partition.value)])


class LeakingSource(DataSource):
    @classmethod
    def name(cls) -> str:
        return "leaking"

    def schema(self) -> str:
        return "offset long"

    def reader(self, schema: Any) -> DataSourceReader:
        return LeakingReader()
