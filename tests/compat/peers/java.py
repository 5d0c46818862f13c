"""Apache Kafka and its Java clients, from Maven into the cache."""

import os
import subprocess
import tempfile
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.compat.peers import cache

# One release by name and not "the newest": results should change when we say so.
KAFKA_VERSION = os.environ.get("QUORATE_KAFKA_VERSION", "4.3.1")
LOG4J_VERSION = "2.25.4"
MAVEN_TIMEOUT_S = 900.0
JAVAC_TIMEOUT_S = 300.0
TOOL_TIMEOUT_S = 120.0

# Small and quick to start: a tool lives for a second or two.
TOOL_OPTIONS = ("-Xmx256M", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto")

LOGGING = """\
<Configuration status="ERROR">
  <Appenders>
    <Console name="stderr" target="SYSTEM_ERR">
      <PatternLayout pattern="[%d] %p %m (%c)%n"/>
    </Console>
  </Appenders>
  <Loggers><Root level="${sys:quorate.log.level:-WARN}"><AppenderRef ref="stderr"/></Root></Loggers>
</Configuration>
"""


def dependency(group: str, artifact: str, version: str, *, without: Sequence[str] = ()) -> str:
    """Return a dependency for a pom; `without` names groups or group:artifact to leave out."""
    exclusions = "".join(
        f"<exclusion><groupId>{left.partition(':')[0]}</groupId>"
        f"<artifactId>{left.partition(':')[2] or '*'}</artifactId></exclusion>"
        for left in without
    )
    return (
        f"<dependency><groupId>{group}</groupId><artifactId>{artifact}</artifactId>"
        f"<version>{version}</version><exclusions>{exclusions}</exclusions></dependency>"
    )


def maven_jars(name: str, dependencies: Sequence[str]) -> Path:
    """Return a folder with these dependencies and all that they need; downloads them once."""
    pom = (
        '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
        f"<groupId>peers</groupId><artifactId>{name}</artifactId><version>1</version>"
        f"<dependencies>{''.join(dependencies)}</dependencies></project>"
    )

    def download(folder: Path) -> None:
        pom_file = folder / "pom.xml"
        pom_file.write_text(pom)
        cache.run(
            [
                cache.program("mvn"),
                *("-q", "-B", "-f", pom_file, "dependency:copy-dependencies"),
                f"-DoutputDirectory={folder}",
            ],
            timeout_s=MAVEN_TIMEOUT_S,
        )

    return cache.made(f"jars/{name}-{cache.digest_of([pom])}", download)


def kafka_folder() -> Path:
    """Return the folder with the jars of Kafka's server, clients and tools."""
    kafka = "org.apache.kafka"
    return maven_jars(
        f"kafka-{KAFKA_VERSION}",
        [
            dependency(kafka, "kafka_2.13", KAFKA_VERSION),
            # Kafka Connect is a web server and all that comes with one; only its own tools need it.
            dependency(kafka, "kafka-tools", KAFKA_VERSION, without=[f"{kafka}:connect-runtime"]),
            dependency("org.apache.logging.log4j", "log4j-slf4j-impl", LOG4J_VERSION),
        ],
    )


def kafka_jars() -> list[Path]:
    """Return the jars of Kafka's server, clients and tools."""
    return sorted(kafka_folder().glob("*.jar"))


def streams_folder() -> Path:
    """Return the folder with the jars of Kafka Streams, and of the clients that it needs."""
    return maven_jars(
        f"streams-{KAFKA_VERSION}",
        [
            dependency("org.apache.kafka", "kafka-streams", KAFKA_VERSION),
            dependency("org.apache.logging.log4j", "log4j-slf4j-impl", LOG4J_VERSION),
        ],
    )


def connect_folder() -> Path:
    """Return the folder with the jars of Kafka Connect, its connectors for files, MirrorMaker 2."""
    kafka = "org.apache.kafka"
    return maven_jars(
        f"connect-{KAFKA_VERSION}",
        [
            dependency(kafka, "connect-runtime", KAFKA_VERSION),
            dependency(kafka, "connect-file", KAFKA_VERSION),
            dependency(kafka, "connect-mirror", KAFKA_VERSION),
            dependency("org.apache.logging.log4j", "log4j-slf4j-impl", LOG4J_VERSION),
        ],
    )


def classpath(*classes: Path, jars: Path | None = None) -> str:
    """Return a class path of compiled classes, if any, and of Kafka's jars, or of others."""
    return ":".join([*map(str, classes), f"{jars or kafka_folder()}/*"])


def java_command(
    main_class: str,
    args: Sequence[str | Path],
    *,
    options: Sequence[str],
    classes: Sequence[Path],
    jars: Path | None = None,
) -> list[str]:
    """Return the command line of a Java program with Kafka's jars on its class path, or others."""
    logging = cache.made(f"logging-{cache.digest_of([LOGGING])}", _write_logging)
    return [
        cache.program("java"),
        *options,
        f"-Dlog4j2.configurationFile={logging / 'log4j2.xml'}",
        f"-Djava.io.tmpdir={tempfile.gettempdir()}",  # libraries unpack themselves there
        *("-cp", classpath(*classes, jars=jars), main_class),
        *map(str, args),
    ]


def java_tool(
    main_class: str,
    args: Sequence[str | Path],
    *,
    stdin: str = "",
    classes: Sequence[Path] = (),
    timeout_s: float = TOOL_TIMEOUT_S,
) -> subprocess.CompletedProcess[str]:
    """Run a Java program to its end, such as `org.apache.kafka.tools.TopicCommand`.

    The caller looks at `returncode`, `stdout` and `stderr`.  Raises PeerUnavailableError without
    Java or the jars, and subprocess.TimeoutExpired.
    """
    return subprocess.run(
        java_command(main_class, args, options=TOOL_OPTIONS, classes=classes),
        input=stdin,
        capture_output=True,
        timeout=timeout_s,
        check=False,
        text=True,
    )


def compile_java(sources: Path, *, jars: Path | None = None) -> Path:
    """Return the folder of classes compiled from all `.java` files under `sources`."""
    files = sorted(sources.rglob("*.java"))
    if not files:
        raise FileNotFoundError(f"no .java files under {sources}")
    digest = cache.digest_of([KAFKA_VERSION, *(file.read_bytes() for file in files)])

    def compile_into(folder: Path) -> None:
        command = [cache.program("javac"), "-cp", classpath(jars=jars), "-d", str(folder)]
        cache.run([*command, *files], timeout_s=JAVAC_TIMEOUT_S)

    return cache.made(f"classes/{digest}", compile_into)


def _write_logging(folder: Path) -> None:
    (folder / "log4j2.xml").write_text(LOGGING)


@contextmanager
def connect_program(main: str, settings: Path, log: Path) -> Generator["subprocess.Popen[bytes]"]:
    """Run a program of Kafka Connect's until the end of the block, and kill it then."""
    command = java_command(
        main, [settings], options=TOOL_OPTIONS, classes=[], jars=connect_folder()
    )
    with log.open("ab") as output, subprocess.Popen(command, stdout=output, stderr=output) as it:
        try:
            yield it
        finally:
            it.kill()
