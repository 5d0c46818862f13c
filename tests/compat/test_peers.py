"""The peers themselves: each can be had, and they agree with each other."""

from pathlib import Path

import pytest

from tests.compat.peers import cache, java, native, nodes
from tests.compat.serving import Broker

pytestmark = [pytest.mark.compat, pytest.mark.slow]

ECHO = """
import org.apache.kafka.common.utils.AppInfoParser;
public class Version {
    public static void main(String[] words) { System.out.println(AppInfoParser.getVersion()); }
}
"""


@pytest.fixture(scope="module")
def kafka(apache_kafka: Broker) -> nodes.Node:
    return apache_kafka.node


@pytest.fixture(scope="module")
def kcat() -> Path:
    try:
        return native.kcat()
    except cache.PeerUnavailableError as error:
        pytest.skip(error.reason)


def test_kcat_and_java_tools_read_what_the_other_wrote(kafka: nodes.Node, kcat: Path) -> None:
    server = ["--bootstrap-server", kafka.bootstrap]
    tools = "org.apache.kafka.tools"
    create = [*server, "--create", "--topic", "letters", "--partitions", "1"]
    assert java.java_tool(f"{tools}.TopicCommand", create).returncode == 0
    produce = [*server, "--topic", "letters"]
    done = java.java_tool(f"{tools}.ConsoleProducer", produce, stdin="a\nb\n")
    assert done.returncode == 0, done.stderr
    consume = [str(kcat), "-C", "-b", kafka.bootstrap, "-t", "letters", "-o", "beginning", "-e"]
    assert cache.run([*consume, "-q"], timeout_s=30).splitlines() == ["a", "b"]
    offsets = java.java_tool(f"{tools}.GetOffsetShell", [*server, "--topic", "letters"])
    assert offsets.stdout.strip() == "letters:0:2"


def test_a_java_program_of_ours_sees_kafkas_classes(tmp_path: Path) -> None:
    (tmp_path / "Version.java").write_text(ECHO)
    try:
        classes = java.compile_java(tmp_path)
        done = java.java_tool("Version", [], classes=[classes])
    except cache.PeerUnavailableError as error:
        pytest.skip(error.reason)
    assert done.stdout.strip() == java.KAFKA_VERSION


def test_a_program_on_librdkafka_is_built(tmp_path: Path) -> None:
    source = tmp_path / "version.c"
    source.write_text(
        "#include <librdkafka/rdkafka.h>\n#include <stdio.h>\n"
        "int main(void) { puts(rd_kafka_version_str()); return 0; }\n"
    )
    try:
        program = native.compile_c(source, library=native.librdkafka())
    except cache.PeerUnavailableError as error:
        pytest.skip(error.reason)
    assert cache.run([program], timeout_s=10).startswith("2.")
