"""What PySpark needs to read a topic: looked for one after the other, as ``quorate doctor`` does.

And a program that reads one, with the options that were given here.
"""

import json
import os
import pkgutil
import re
import shutil
import subprocess
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final

from quorate.errors import QuorateError
from quorate.model import TopicPartition
from quorate.tools.doctor import BAD, OK, WARNING, Finding
from quorate.tools.problems import explain
from quorate.tools.spark_reading import JAVA_HINT
from quorate.tools.topics import Client

JAVA_MIN: Final = 17
PYSPARK_MIN: Final = (4, 2)
PYSPARK_BELOW: Final = (5, 0)
MODULE: Final = "pyspark_quorate"
"""In modules called like this Spark looks for data sources by itself."""

INSTALL: Final = "pip install 'quorate[spark]'"
JAVA_S_MAX: Final = 20.0
READ_S_MAX: Final = 10.0
_JAVA_VERSION: Final = re.compile(r'version "(?:1\.)?([0-9]+)')
_SECRET: Final = re.compile(r"password$")


# --- this machine


def judge_java(said: str | None) -> Finding:
    """Judge what ``java -version`` said; None if there is no Java."""
    if said is None:
        return Finding("Java", BAD, "there is none, and Spark runs on it", JAVA_HINT)
    match = _JAVA_VERSION.search(said)
    if match is None:
        return Finding("Java", BAD, " ".join(said.split())[:200] or "it says nothing", JAVA_HINT)
    state = OK if int(match[1]) >= JAVA_MIN else BAD
    return Finding("Java", state, f"version {match[1]}", "" if state == OK else JAVA_HINT)


def judge_pyspark(found: str | None) -> Finding:
    """Judge the version of PySpark; None if it is not installed."""
    if found is None:
        return Finding("PySpark", BAD, "it is not installed", INSTALL)
    numbers = tuple(int(number) for number in re.findall(r"[0-9]+", found)[:2])
    if PYSPARK_MIN <= numbers < PYSPARK_BELOW:
        return Finding("PySpark", OK, f"version {found}")
    wanted = f"{PYSPARK_MIN[0]}.{PYSPARK_MIN[1]} or later, below {PYSPARK_BELOW[0]}"
    return Finding("PySpark", BAD, f"version {found}; it takes {wanted}", INSTALL)


def judge_pyarrow(found: str | None) -> Finding:
    """Judge whether there is Arrow, in which records are handed to Spark."""
    if found is None:
        return Finding("PyArrow", BAD, "it is not installed", INSTALL)
    return Finding("PyArrow", OK, f"version {found}")


def judge_connector(*, is_found: bool) -> Finding:
    """Judge whether Spark finds the connector; where it does not, a program can register it."""
    if is_found:
        return Finding("connector", OK, f'Spark finds {MODULE}: format("quorate")')
    return Finding(
        "connector", WARNING, f"Spark does not find {MODULE} by itself, as with pip install -e",
        "spark.dataSource.register(quorate.client.spark.QuorateDataSource); or PYTHONPATH",
    )  # fmt: skip


def look_at_machine() -> list[Finding]:
    """Look at what is installed here; Spark is not started."""
    modules = {module.name for module in pkgutil.iter_modules()}
    return [
        judge_java(_java_version()),
        judge_pyspark(_installed("pyspark")),
        judge_pyarrow(_installed("pyarrow")),
        judge_connector(is_found=MODULE in modules),
    ]


def _java_version() -> str | None:
    """Return what the Java says that Spark would start, or why it does not start."""
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    if java is None:
        return None
    try:
        done = subprocess.run(  # noqa: S603 - whichever Spark would start
            [java, "-version"], capture_output=True, text=True, check=False, timeout=JAVA_S_MAX
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{java}: {error}"
    return done.stderr + done.stdout


def _installed(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


# --- the cluster


async def look_at_cluster(client: Client, topic: str | None) -> list[Finding]:
    """See whether a broker answers, and whether each partition of a topic can be read."""
    try:
        async with client.admin() as admin:
            cluster = await admin.describe_cluster()
    except QuorateError as error:
        return [_unlucky("cluster", error)]
    told = f"{len(cluster.brokers)} brokers at {client.bootstrap}"
    findings = [Finding("cluster", OK, told)]
    if topic is not None:
        findings.append(await _look_at_topic(client, topic))
    return findings


async def _look_at_topic(client: Client, topic: str) -> Finding:
    check = f"topic {topic}"
    try:
        async with client.consumer(auto_offset_reset="earliest") as consumer:
            numbers = await consumer.partitions_of(topic)
            partitions = [TopicPartition(topic, number) for number in numbers]
            firsts = await consumer.beginning_offsets(partitions)
            ends = await consumer.end_offsets(partitions)
            left = {p for p in partitions if firsts[p] < ends[p]}
            count = sum(ends[p] - firsts[p] for p in left)
            consumer.assign(left)
            records = await consumer.poll(timeout_ms=int(READ_S_MAX * 1000)) if left else []
    except QuorateError as error:
        return _unlucky(check, error)
    told = f"{len(partitions)} partitions with about {count} records"
    if left and not records:
        advice = "are they all of a transaction that is open? quorate txns list"
        return Finding(check, WARNING, f"{told}, of which none came in {READ_S_MAX:g} s", advice)
    return Finding(check, OK, told)


def _unlucky(check: str, error: QuorateError) -> Finding:
    problem = explain(error)
    return Finding(check, BAD, problem.what, problem.hint)


# --- a program


def example_program(topic: str, bootstrap: str, properties: Mapping[str, str], since: str) -> str:
    """Return a program that reads a topic; passwords it takes from the environment."""
    options = {"kafka.bootstrap.servers": _quoted(bootstrap), "subscribe": _quoted(topic)}
    for name, text in sorted(properties.items()):
        if name != "bootstrap.servers":
            options[f"kafka.{name}"] = _value_text(name, text)
    if since:
        options["since"] = _quoted(since)
    lines = "\n".join(f"    .option({_quoted(name)}, {text})" for name, text in options.items())
    imports = "import os\n\n" if any("os.environ" in text for text in options.values()) else ""
    return _PROGRAM.format(topic=topic, options=lines, imports=imports, name=_quoted(topic))


def _value_text(name: str, text: str) -> str:
    variable = re.sub(r"[^A-Z0-9]", "_", name.upper())
    return f"os.environ[{_quoted(variable)}]" if _SECRET.search(name) else _quoted(text)


def _quoted(text: str) -> str:
    """Return a text as Python's formatters write it."""
    return json.dumps(text, ensure_ascii=False)


_PROGRAM: Final = '''\
"""Reads {topic}. Run it with python, or with spark-submit."""

{imports}from pyspark.sql import SparkSession

from quorate.client.spark import QuorateDataSource

spark = SparkSession.builder.appName({name}).getOrCreate()
spark.dataSource.register(QuorateDataSource)  # not needed where Spark finds it by itself
records = (
    spark.read.format("quorate")
{options}
    .load()
)
texts = records.selectExpr(
    "partition", "offset", "timestamp", "CAST(key AS STRING)", "CAST(value AS STRING)"
)
texts.show(truncate=60)
print(records.count(), "records")
'''
