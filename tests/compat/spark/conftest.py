"""One Spark session for all its tests, one node, and the jars of Spark's own Kafka source."""

import os
import shutil
import sys
import tempfile
from collections.abc import Generator
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import pytest

from quorate.client.sync import Producer
from tests.compat import serving
from tests.compat.peers import cache, java
from tests.conftest import IN_A_HURRY

ROOT: Final = Path(__file__).parents[3]
PEER_VERSION: Final = "4.2.0"
"""Of Spark's own Kafka source: the newest one that is in Maven's repository."""

IN_SPARK: Final = ("org.apache.hadoop", "org.scala-lang", "org.scala-lang.modules", "org.slf4j")
ALSO_IN_SPARK: Final = (
    "org.apache.spark:spark-tags_2.13",
    "org.xerial.snappy",
    "com.google.code.findbugs",
    "com.github.luben",
    "org.lz4",
    "at.yawk.lz4",
)
QUICK_START: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


def missing() -> str | None:
    """Return why there can be no Spark here, if there can be none."""
    if find_spec("pyspark") is None:
        return "pyspark is not installed: 'make test' installs it, or pip install 'quorate[spark]'"
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        return "Spark needs Java 17 or later: install openjdk-17-jre-headless, or set JAVA_HOME"
    return None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave Spark's own warnings to Spark."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.filterwarnings("ignore"))
            item.add_marker(pytest.mark.compat)


def peer_jars() -> str:
    """Return Spark's own Kafka source as ``spark.jars``; nothing without Maven."""
    artifact = java.dependency(
        "org.apache.spark",
        "spark-sql-kafka-0-10_2.13",
        PEER_VERSION,
        without=[*IN_SPARK, *ALSO_IN_SPARK],
    )
    try:
        folder = java.maven_jars("spark-sql-kafka", [artifact])
    except cache.PeerUnavailableError:
        return ""
    return ",".join(map(str, sorted(folder.glob("*.jar"))))


def temporary_files() -> str:
    """Return what makes a JVM put them where Python's are."""
    return f"-Djava.io.tmpdir={tempfile.gettempdir()}"


@pytest.fixture(scope="package")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Generator[Any]:
    """The session; workers import Quorate from here."""
    reason = missing()
    if reason is not None:
        pytest.skip(reason)
    from pyspark.sql import SparkSession  # noqa: PLC0415 - it may not be there

    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    os.environ["PYTHONPATH"] = os.pathsep.join((str(ROOT), os.environ.get("PYTHONPATH", "")))
    if str(ROOT) not in sys.path:
        sys.path.insert(0, str(ROOT))
    conf = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "1",
        "spark.default.parallelism": "1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "1g",
        "spark.driver.extraJavaOptions": f"{QUICK_START} {temporary_files()}",
        "spark.local.dir": tempfile.gettempdir(),
        "spark.jars": peer_jars(),
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("warehouse")),
        "spark.sql.python.filterPushdown.enabled": "true",
    }
    builder: Any = SparkSession.builder
    builder = builder.master("local[2,2]").appName(
        "quorate tests"
    )  # a task that fails is tried again
    for name, value in conf.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()


@pytest.fixture(scope="package")
def node(tmp_path_factory: pytest.TempPathFactory) -> Generator[serving.Broker]:
    """A node of ours."""
    properties = {**IN_A_HURRY, "log.retention.ms": "-1"}  # records here are of other days
    with serving.quorate(properties, tmp_path_factory.mktemp("node")) as node:
        yield node


@pytest.fixture(scope="package")
def servers(node: serving.Broker) -> str:
    """Where it listens."""
    return node.server.bootstrap


def fill(servers: str, topic: str, count: int, **settings: Any) -> None:
    """Write records of all shapes."""
    with Producer(servers, **settings) as producer:
        for i in range(count):
            producer.enqueue(
                topic,
                None if i % 7 == 3 else b"value %d" % i,
                key=None if i % 3 == 0 else b"key %d" % (i % 50),
                headers=[("h", b"%d" % i), ("null", None)] if i % 5 == 0 else (),
                timestamp_ms=1_700_000_000_000 + i * 1_000,
            )
