"""What can be said about the peers without having them."""

import os
from pathlib import Path

import pytest

from tests.compat.peers import cache, java, native, nodes, process


@pytest.fixture(autouse=True)
def cache_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "CACHE", tmp_path)


def test_what_is_in_the_cache_is_not_made_again() -> None:
    made: list[Path] = []

    def make(folder: Path) -> None:
        made.append(folder)
        (folder / "result").write_text("done")

    assert cache.made("things/one", make) == cache.made("things/one", make)
    assert (cache.CACHE / "things/one/result").read_text() == "done"
    assert len(made) == 1


def test_a_failed_attempt_leaves_nothing_behind() -> None:
    def fail(folder: Path) -> None:
        (folder / "half").write_text("half")
        raise cache.PeerUnavailableError("no network")

    with pytest.raises(cache.PeerUnavailableError, match="no network"):
        cache.made("things/two", fail)
    assert list((cache.CACHE / "things").iterdir()) == []


def test_a_missing_program_is_named() -> None:
    with pytest.raises(cache.PeerUnavailableError, match="nosuch-a or nosuch-b is not installed"):
        cache.program("nosuch-a", "nosuch-b")


def test_a_failed_command_says_why_and_not_where() -> None:
    command = ["/bin/sh", "-c", "echo start; echo 'ERROR: no (https://example.test/a b)'; exit 3"]
    with pytest.raises(cache.PeerUnavailableError) as caught:
        cache.run(command, timeout_s=10)
    assert caught.value.reason.startswith("sh failed: ERROR: no")
    assert "example" not in caught.value.reason


def test_a_command_that_hangs_is_ended() -> None:
    with pytest.raises(cache.PeerUnavailableError, match="did not finish"):
        cache.run(["/bin/sleep", "20"], timeout_s=0.05)


def test_other_inputs_get_another_name() -> None:
    assert cache.digest_of(["a", "b"]) == cache.digest_of([b"a", b"b"])
    assert cache.digest_of(["ab"]) != cache.digest_of(["a", "b"])


def test_a_dependency_may_leave_things_out() -> None:
    text = java.dependency("org.x", "core", "1.0", without=["org.y", "org.z:big"])
    assert "<artifactId>core</artifactId>" in text
    assert "<groupId>org.y</groupId><artifactId>*</artifactId>" in text
    assert "<groupId>org.z</groupId><artifactId>big</artifactId>" in text


def test_a_kafka_node_listens_on_loopback_only_and_can_be_adjusted() -> None:
    text = nodes.kafka_properties(
        directory=Path("/data"), port=1, controller_port=2, properties={"node.id": "7"}
    )
    lines = text.splitlines()
    assert "listeners=PLAINTEXT://127.0.0.1:1,CONTROLLER://127.0.0.1:2" in lines
    assert "node.id=7" in lines
    assert len({line.partition("=")[0] for line in lines}) == len(lines)


def test_a_program_in_c_is_compiled_once(tmp_path: Path) -> None:
    source = tmp_path / "sources" / "answer.c"
    source.parent.mkdir()
    source.write_text("int main(void) { return 0; }\n")
    try:
        first = native.compile_c(source)
    except cache.PeerUnavailableError as error:
        pytest.skip(error.reason)
    assert cache.run([first], timeout_s=10) == ""
    assert native.compile_c(source) == first
    source.write_text("int main(void) { return 0 * 1; }\n")
    assert native.compile_c(source) != first


def test_the_kernel_knows_what_we_use() -> None:
    memory = process.memory_of(os.getpid())
    assert 0 < memory.rss_bytes <= memory.rss_bytes_max
    before = process.cpu_seconds_of(os.getpid())
    assert sum(range(200_000)) > 0
    assert process.cpu_seconds_of(os.getpid()) > before
    assert process.machine_cpu_seconds() > 0
    assert os.getpid() in process.family_of(os.getpid())


def test_a_node_that_ends_by_itself_is_told_from_one_that_is_slow(tmp_path: Path) -> None:
    command = ["/bin/sh", "-c", "echo out of luck; exit 3"]
    node = nodes.launch("short", command, port=nodes.free_port(), directory=tmp_path, cores="")
    with pytest.raises(nodes.NodeFailedError, match=r"(?s)ended with 3.*out of luck"):
        node.wait_until_it_listens(10)
    node.stop()


def test_stopping_a_node_ends_its_children_too(tmp_path: Path) -> None:
    command = ["/bin/sh", "-c", "sleep 100 & echo $! > child; exec sleep 100"]
    script = f"cd {tmp_path}; {command[2]}"
    node = nodes.launch(
        "parent", ["/bin/sh", "-c", script], port=nodes.free_port(), directory=tmp_path, cores=""
    )
    while not (tmp_path / "child").exists() or not (tmp_path / "child").read_text().endswith("\n"):
        assert node.popen.poll() is None
    child = int((tmp_path / "child").read_text())
    node.stop()
    status = Path(f"/proc/{child}/stat")
    assert not status.exists() or status.read_text().rpartition(")")[2].split()[0] in "ZX"
