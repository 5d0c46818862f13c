"""What is made of a node's directory before it starts first, and what is refused."""

from dataclasses import replace
from pathlib import Path

import pytest

from quorate.broker.log.directory import lock_directory
from quorate.broker.log.files import OsFileSystem
from quorate.model import Endpoint
from quorate.quorum.directory import open_controller_directory
from quorate.quorum.raft.voters import ReplicaKey, Voter
from quorate.settings import NodeConfig
from quorate.tools.problems import CommandError, UsageError
from quorate.tools.storage_format import (
    Begin,
    Formatting,
    Part,
    Role,
    Said,
    carry_out,
    parse_controllers,
    parts_table,
    plan,
    wanted_of,
)

ONE, TWO = "AAAAAAAAAAAAAAAAAAAAAQ", "AAAAAAAAAAAAAAAAAAAAAg"
BOTH = f"1@host:9190:{ONE},2@[::1]:9191:{TWO}"
ALONE = Said(Role.COMBINED, "", (), "")
CONTROLLER = Said(Role.CONTROLLER, "c", (Begin.ALONE,), "")
TOGETHER = Said(Role.CONTROLLER, "c", (Begin.TOGETHER,), BOTH)


def node(tmp_path: Path, node_id: int = 1) -> NodeConfig:
    return NodeConfig(node_id=node_id, log_dir=str(tmp_path / "node"))


def make(said: Said, config: NodeConfig, *, ignore: bool = False) -> tuple[Formatting, list[Part]]:
    return carry_out(*plan(said, config, ignore_formatted=ignore))


def test_a_plan_writes_nothing_and_draws_no_id(tmp_path: Path) -> None:
    wanted, parts = plan(ALONE, node(tmp_path), ignore_formatted=False)
    rows = parts_table(wanted, parts, dry_run=True).items()
    assert [(r["role"], r["cluster_id"], r["directory_id"], r["state"]) for r in rows] == [
        ("controller", None, None, "would be formatted"),
        ("broker", None, None, "would be formatted"),
    ]
    assert list(tmp_path.iterdir()) == []


def test_what_is_formatted_is_told_so_and_left_as_it_is(tmp_path: Path) -> None:
    config = node(tmp_path)
    first, made = make(ALONE, config)
    assert all(part.is_new and part.directory_id for part in made)
    with pytest.raises(CommandError, match=r"formatted already.*of cluster"):
        plan(ALONE, config, ignore_formatted=False)
    again, kept = make(ALONE, config, ignore=True)
    assert again == first
    assert [replace(part, is_new=True) for part in kept] == made
    assert {part.is_new for part in kept} == {False}


def test_only_what_lacks_is_formatted(tmp_path: Path) -> None:
    config = node(tmp_path)
    wanted, made = make(ALONE, config)
    (tmp_path / "node" / "meta.json").unlink()
    again, parts = make(ALONE, config)
    assert again == wanted
    assert [part.is_new for part in parts] == [False, True]
    assert parts[0].directory_id == made[0].directory_id


@pytest.mark.parametrize("ignore", [False, True])
@pytest.mark.parametrize(
    ("cluster_id", "node_id", "complaint"),
    [("d", 1, "cluster c, not d"), ("c", 2, "node 1, not 2")],
)
@pytest.mark.parametrize("role", list(Role))
def test_a_directory_of_others_is_refused(
    role: Role, cluster_id: str, node_id: int, complaint: str, ignore: bool, tmp_path: Path
) -> None:
    begins = (Begin.ALONE,) if role is Role.CONTROLLER else ()
    make(Said(role, "c", begins, ""), node(tmp_path))
    before = {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()}
    with pytest.raises(CommandError, match=complaint):
        plan(Said(role, cluster_id, begins, ""), node(tmp_path, node_id), ignore_formatted=ignore)
    assert {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()} == before


def test_a_directory_in_use_is_not_formatted(tmp_path: Path) -> None:
    (tmp_path / "node").mkdir()
    lock = lock_directory(OsFileSystem(), str(tmp_path / "node"))
    with pytest.raises(Exception, match="in use"):
        make(Said(Role.BROKER, "c", (), ""), node(tmp_path))
    lock.release()


def test_a_controller_that_begins_alone_votes_where_it_listens(tmp_path: Path) -> None:
    make(CONTROLLER, node(tmp_path))
    opened = open_controller_directory(tmp_path / "node", 1, cluster_id="c")
    (voter,) = opened.meta.founders.voters
    opened.close()
    assert (voter.key, voter.endpoint) == (opened.meta.key, Endpoint("127.0.0.1", 9190))


def test_initial_controllers_know_each_other_and_have_the_ids_that_were_said(
    tmp_path: Path,
) -> None:
    _, parts = make(TOGETHER, node(tmp_path, 2))
    assert [part.directory_id for part in parts] == [TWO]
    opened = open_controller_directory(tmp_path / "node", 2, cluster_id="c")
    opened.close()
    assert opened.meta.founders == parse_controllers(BOTH)
    assert opened.meta.key.directory_id[-1] == 2
    other = replace(TOGETHER, initial_controllers=BOTH.replace(TWO, ONE))
    with pytest.raises(CommandError, match=f"directory id {TWO}, not {ONE}"):
        plan(other, node(tmp_path, 2), ignore_formatted=True)


def test_a_controller_that_joins_votes_not(tmp_path: Path) -> None:
    make(Said(Role.CONTROLLER, "c", (Begin.JOINING,), ""), node(tmp_path, 3))
    opened = open_controller_directory(tmp_path / "node", 3, cluster_id="c")
    opened.close()
    assert (opened.meta.is_formatted, opened.meta.founders.voters) == (True, ())


def test_initial_controllers_are_written_as_kafka_writes_them() -> None:
    assert parse_controllers(BOTH).voters == (
        Voter(ReplicaKey(1, bytes(15) + b"\1"), Endpoint("host", 9190)),
        Voter(ReplicaKey(2, bytes(15) + b"\2"), Endpoint("::1", 9191)),
    )


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "ID@HOST"),
        ("1@host:9190", "ID@HOST"),
        (f"1@a:1:{ONE},1@b:2:{TWO}", "twice"),
        ("1@host:9190:AAAAAAAAAAAAAAAAAAAAAA", "no directory id"),
        (f"1@host:91900:{ONE}", "nobody can connect to host:91900"),
        (f"1@host:0:{ONE}", "nobody can connect"),
        (f"1@a..b:9190:{ONE}", "nobody can connect"),
        (f"5000000000@host:9190:{ONE}", "ids go up to 2147483647"),
        ("1" * 5000 + f"@host:9190:{ONE}", "ID@HOST"),
        (",".join(f"{n}@host:9190:{ONE}" for n in range(64)), "at most 63"),
    ],
)
def test_what_names_no_controllers_is_refused(text: str, complaint: str) -> None:
    with pytest.raises(UsageError, match=complaint):
        parse_controllers(text)


@pytest.mark.parametrize(
    ("said", "complaint"),
    [
        (Said(Role.CONTROLLER, "c", (), ""), "say how the cluster"),
        (Said(Role.CONTROLLER, "c", (Begin.ALONE, Begin.JOINING), ""), "say how the cluster"),
        (Said(Role.CONTROLLER, "", (Begin.JOINING,), ""), "which cluster"),
        (Said(Role.BROKER, "", (), ""), "which cluster"),
        (Said(Role.BROKER, "c", (Begin.ALONE,), ""), "is for controllers"),
        (Said(Role.COMBINED, "c", (Begin.JOINING,), ""), "is for controllers"),
        (Said(Role.COMBINED, "a b", (), ""), "no cluster id"),
    ],
)
def test_what_makes_no_sense_is_refused(said: Said, complaint: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=complaint):
        wanted_of(said, node(tmp_path))


def test_others_are_told_a_port_and_a_voter_is_one_of_them(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="needs a port"):
        wanted_of(CONTROLLER, replace(node(tmp_path), controller_listener="127.0.0.1:0"))
    with pytest.raises(UsageError, match="controller 3 is none of"):
        wanted_of(TOGETHER, node(tmp_path, 3))
