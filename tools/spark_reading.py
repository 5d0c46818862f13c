"""Writes topics to files with PySpark; files are cut by the bytes of the log that go into them."""

from __future__ import annotations

import os
import shutil
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from quorate.dataclass import dataclass
from quorate.tools.problems import CommandError, UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

JAVA_HINT: Final = (
    "it needs Java 17 or later: apt install openjdk-17-jre-headless, or set JAVA_HOME"
)
FORMATS: Final = ("parquet", "orc", "json")
COLUMNS: Final = {
    "key": "binary",
    "value": "binary",
    "topic": "string",
    "partition": "int",
    "offset": "long",
    "timestamp": "timestamp",
    "timestampType": "int",
    "headers": "array<struct<key:string,value:binary>>",
}


@dataclass(frozen=True, slots=True)
class Target:
    """A format and a folder."""

    form: str
    folder: str


@dataclass(frozen=True, slots=True)
class ReadPlan:
    """What to read, and where to; empty where nothing was said."""

    topics: tuple[str, ...]
    target: Target
    since: str
    until: str
    columns: tuple[str, ...]
    file_bytes: int
    overwrite: bool


@dataclass(frozen=True, slots=True)
class Summary:
    """What was done."""

    record_count: int
    file_count: int
    size_bytes: int
    folder: str

    def __str__(self) -> str:
        megabytes = self.size_bytes / 1_000_000
        files = "1 file" if self.file_count == 1 else f"{self.file_count} files"
        return f"{self.record_count:,} records in {files} of {self.folder} ({megabytes:.1f} MB)"


def parse_target(text: str) -> Target:
    """Return what ``--to`` means.

    Raises:
        UsageError: it has no meaning.
    """
    form, colon, folder = text.partition(":")
    if not (colon and folder and form in FORMATS):
        raise UsageError(
            f"--to is {text!r}" if text else "--to is missing",
            why=f"it names a format and a folder; there are {', '.join(FORMATS)}",
            hint="--to parquet:out/",
        )
    return Target(form, folder)


def schema_of(columns: tuple[str, ...]) -> str:
    """Return the schema that asks for some columns; for all but headers, if none is named.

    Raises:
        UsageError: there is no such column.
    """
    for name in columns:
        if name not in COLUMNS:
            raise UsageError(
                f"there is no column {name!r}",
                why=f"there are {', '.join(COLUMNS)}",
                hint="--columns key,value,timestamp",
            )
    wanted = columns or tuple(name for name in COLUMNS if name != "headers")
    return ", ".join(f"{name} {COLUMNS[name]}" for name in wanted)


def file_count(log_bytes: int, file_bytes: int) -> int:
    """Return into how many files so much of a log goes."""
    return max(1, -(-log_bytes // file_bytes))


def read_to_files(
    plan: ReadPlan, servers: str, properties: Mapping[str, str], *, quiet: bool
) -> Summary:
    """Read and write; Spark's own bar shows how far it is.

    Raises:
        UsageError: the plan makes no sense.
        CommandError: there is no Spark here, or it failed.
    """
    schema = schema_of(plan.columns)
    if Path(plan.target.folder).exists() and not plan.overwrite:
        raise UsageError(
            f"{plan.target.folder} is there already",
            why="nothing is mixed with what was written before",
            hint="another folder, or --overwrite",
        )
    if find_spec("pyspark") is None:
        raise CommandError(
            "PySpark is not installed", why="it is large", hint="pip install 'quorate[spark]'"
        )
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        raise CommandError("Java is not installed", why="Spark runs on it", hint=JAVA_HINT)
    options = {f"kafka.{name}": text for name, text in properties.items()}
    options |= {"kafka.bootstrap.servers": servers, "subscribe": ",".join(plan.topics)}
    options |= {name: text for name in ("since", "until") if (text := getattr(plan, name))}
    files = file_count(_log_bytes(options), plan.file_bytes)
    session = _session(shows_progress=sys.stderr.isatty() and not quiet)
    try:
        return write_files(session, plan, schema, options, files)
    except Exception as error:
        raise CommandError(
            f"could not write {plan.target.folder}", why=_reason(error), hint="--debug tells all"
        ) from error
    finally:
        session.stop()


def _log_bytes(options: Mapping[str, str]) -> int:
    """Return about how much of the log is read: its size, by the share of offsets wanted."""
    import time

    from quorate.client.spark.cluster import cluster
    from quorate.client.spark.options import parse_batch_read
    from quorate.client.spark.sizing import log_bytes

    parsed = parse_batch_read(options, time.time_ns() // 1_000_000)
    return log_bytes(cluster(parsed.connection), parsed)


def _session(*, shows_progress: bool) -> Any:
    from pyspark.sql import SparkSession

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder: Any = SparkSession.builder
    builder = builder.appName("quorate spark read").master(os.environ.get("MASTER", "local[*]"))
    for name, value in {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": str(shows_progress).lower(),
        "spark.sql.session.timeZone": "UTC",
        "spark.log.level": "ERROR",
    }.items():
        builder = builder.config(name, value)
    try:
        return builder.getOrCreate()
    except Exception as error:
        raise CommandError(
            "Spark does not start",
            why=_reason(error),
            hint=JAVA_HINT,
        ) from error


def write_files(
    session: Any, plan: ReadPlan, schema: str, options: Mapping[str, str], files: int
) -> Summary:
    """Write what the options say into about so many files, however many partitions there are."""
    reader = session.read.format("quorate").schema(schema).options(**options)
    frame = reader.option("minPartitions", files).load()
    if frame.rdd.getNumPartitions() > files:
        frame = frame.coalesce(files)
    mode = "overwrite" if plan.overwrite else "errorifexists"
    frame.write.format(plan.target.form).mode(mode).save(plan.target.folder)
    written = [path for path in Path(plan.target.folder).glob("part-*") if path.is_file()]
    count = session.read.format(plan.target.form).load(plan.target.folder).count()
    size_bytes = sum(path.stat().st_size for path in written)
    return Summary(count, len(written), size_bytes, plan.target.folder)


def _reason(error: Exception) -> str:
    """Return the line of an error that says most: the last one of ours, or the first."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    ours = [line for line in lines if line.startswith("quorate.") and "Error: " in line]
    if ours:
        return ours[-1].partition("Error: ")[2]
    return lines[0] if lines else type(error).__name__
