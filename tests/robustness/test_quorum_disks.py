"""Controllers whose disk is full, damaged, somebody else's, or there twice."""

import re
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import pytest

from quorate.control import messages as m
from quorate.jepsen.clients.controllers import ControlSocket, MaybeDoneError, NotDoneError
from quorate.jepsen.lab.disks import UNLIMITED
from quorate.jepsen.lab.native import compiler
from quorate.net.ports import LOOPBACK, free_ports
from tests.robustness.node import Process
from tests.robustness.quorum_cluster import Cluster, Machine
from tests.robustness.quorum_history import History
from tests.robustness.quorum_registers import CLIENTS, Reader, RegisterLoad

pytestmark = [
    pytest.mark.integration,
    pytest.mark.slow,
    pytest.mark.skipif(compiler() is None, reason="needs a C compiler, for shim.c and redirect.c"),
]

SEED = 1
FIRST_KEYS = list(range(901, 1, -100))
SOME = 20
TOLD = {
    "journal": r"the journal's record \d+, at byte \d+, .* is damaged",
    "snapshot": r"the snapshot.* (is wrong|damaged)",
}
PROPERTIES = {"quorate.quorum.snapshot.entries": "100"}
WAIT_S_MAX = 20.0
ENDS_S_MAX = 15.0
ASIDE_S = 2.0
FLIPS = 2
LOOK_S = 2.5
MAJORITY = 2


class Loaded:
    """A cluster that clients write to."""

    def __init__(self, cluster: Cluster, first_key: int) -> None:
        self.cluster = cluster
        self.history = History(first_key)
        self.load = RegisterLoad(self.cluster.ports, self.history, Random(first_key))

    def start(self) -> None:
        self.load.start()
        self.wait_for_writes(SOME)

    def wait_for_writes(self, count: int) -> None:
        wanted = self.history.acknowledged + count
        wait_until(lambda: self.history.acknowledged >= wanted)

    def start_all(self) -> None:
        """Start those that do not run, and wait until all follow the same leader."""
        self.cluster.start()
        wait_until(lambda: len({self._leader_of(each) for each in self.cluster.machines}) == 1)
        self.wait_for_writes(SOME)

    def _leader_of(self, machine: Machine) -> int | Machine:
        view = local_view(self, machine)
        return machine if view is None or view.leader_id == m.NO_NODE else view.leader_id

    def check(self) -> None:
        """Stop the clients; see that everything acknowledged is everywhere."""
        self.load.stop()
        assert self.load.read_all(WAIT_S_MAX)
        assert self.load.catch_up()
        assert self.history.check(self.load.feeds) == []


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(tmp_path_factory.mktemp("quorum") / "cluster", PROPERTIES) as made:
        made.start()
        yield made
        made.stop()


@pytest.fixture
def loaded(cluster: Cluster) -> Iterator[Loaded]:
    """Every test has registers of its own, and leaves the cluster as it found it."""
    made = Loaded(cluster, FIRST_KEYS.pop())
    try:
        made.start()
        yield made
        made.check()
    finally:
        for machine in cluster.machines:
            machine.shim.set("space_bytes", UNLIMITED)
        made.load.stop()
        made.load.close()


def wait_until(condition: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + WAIT_S_MAX
    while not condition():
        assert time.monotonic() < deadline_s, "it never happened"
        time.sleep(0.01)


def local_view(loaded: Loaded, machine: Machine) -> m.DescribeQuorumAnswer | None:
    """Return what a controller says of the quorum, by itself."""
    deadline_s = time.monotonic() + 2.0
    try:
        port = loaded.cluster.ports[machine.number - 1]
        connection = ControlSocket(port, cluster_id="", deadline_s=deadline_s)
        answer = connection.ask(m.DescribeQuorum(local=True), request_id=b"", deadline_s=deadline_s)
        connection.close()
    except (NotDoneError, MaybeDoneError):
        return None
    return answer if isinstance(answer, m.DescribeQuorumAnswer) else None


def says_full(loaded: Loaded, machine: Machine) -> bool:
    """Return whether a controller says that its disk is full."""
    view = local_view(loaded, machine)
    return view is not None and view.disk_full


def follower_of(cluster: Cluster) -> Machine:
    leader = cluster.leader(WAIT_S_MAX)
    return next(machine for machine in cluster.machines if machine is not leader)


def last_words(machine: Machine) -> str:
    """Return what a process that must not start said, once it has ended."""
    log_before = machine.log_path.read_text()
    machine.start()
    assert machine.process is not None
    code = machine.process.wait(ENDS_S_MAX)
    assert code == 1, f"{code}: {machine.process.log_tail()}"
    machine.process.kill()
    machine.process = None
    return machine.log_path.read_text().removeprefix(log_before)


# --- full disks


def test_a_leader_whose_disk_is_full_leads_no_more_serves_reads_and_recovers(
    loaded: Loaded,
) -> None:
    leader = loaded.cluster.leader(WAIT_S_MAX)
    assert leader is not None
    leader.shim.set("space_bytes", 0)
    wait_until(lambda: loaded.cluster.leader(LOOK_S) not in (None, leader))
    loaded.wait_for_writes(SOME)  # others go on

    reader = Reader(loaded.cluster.ports[leader.number - 1], leader.number)
    reader.poll(0, WAIT_S_MAX)
    assert reader.image.version > 0
    assert reader.value(str(loaded.history.first_key)) is not None
    reader.close()
    assert says_full(loaded, leader)

    leader.shim.set("space_bytes", UNLIMITED)
    wait_until(lambda: not says_full(loaded, leader))
    others = [machine for machine in loaded.cluster.machines if machine is not leader]
    others[0].kill()  # now its vote and its disk are needed
    loaded.wait_for_writes(SOME)
    loaded.start_all()


def test_a_quorum_whose_disks_are_all_full_goes_on_when_they_have_space(loaded: Loaded) -> None:
    for machine in loaded.cluster.machines:
        machine.shim.set("space_bytes", 0)
    wait_until(lambda: loaded.cluster.leader(LOOK_S) is None)
    loaded.cluster.check_alive()
    for machine in loaded.cluster.machines:
        assert local_view(loaded, machine) is not None
    # A disk that nothing is written to is not found full: two that are keep all else from it.
    machines = loaded.cluster.machines
    wait_until(lambda: sum(says_full(loaded, machine) for machine in machines) >= MAJORITY)
    for machine in loaded.cluster.machines:
        machine.shim.set("space_bytes", UNLIMITED)
    loaded.wait_for_writes(SOME)


def test_a_controller_starts_on_a_full_disk_and_joins_in_when_there_is_space(
    loaded: Loaded,
) -> None:
    victim = follower_of(loaded.cluster)
    victim.kill()
    victim.shim.set("space_bytes", 0)
    loaded.cluster.start()
    wait_until(lambda: says_full(loaded, victim))
    loaded.wait_for_writes(SOME)  # others go on
    loaded.cluster.check_alive()

    victim.shim.set("space_bytes", UNLIMITED)
    next(machine for machine in loaded.cluster.machines if machine is not victim).kill()
    loaded.wait_for_writes(SOME)  # now its vote and its disk are needed
    loaded.start_all()


def test_controllers_that_all_start_on_full_disks_go_on_when_they_have_space(
    loaded: Loaded,
) -> None:
    for machine in loaded.cluster.machines:
        machine.kill()
        machine.shim.set("space_bytes", 0)
    loaded.cluster.start()
    wait_until(lambda: all(says_full(loaded, each) for each in loaded.cluster.machines))
    assert loaded.cluster.leader(LOOK_S) is None
    loaded.cluster.check_alive()
    for machine in loaded.cluster.machines:
        machine.shim.set("space_bytes", UNLIMITED)
    loaded.wait_for_writes(SOME)


# --- damaged files


@pytest.mark.parametrize("name", ["journal", "snapshot"])
def test_a_flipped_bit_is_found_and_told_and_the_others_go_on(loaded: Loaded, name: str) -> None:
    victim = follower_of(loaded.cluster)
    folder = victim.data / "controller"
    if name == "snapshot":
        wait_until(lambda: snapshot_of(folder) is not None)
    victim.kill()
    path = folder / name if name == "journal" else snapshot_of(folder)
    assert path is not None
    content = path.read_bytes()
    rng = Random(SEED)
    try:
        for _ in range(FLIPS):
            damaged = bytearray(content)
            damaged[rng.randrange(len(content) * 3 // 4)] ^= 1 << rng.randrange(8)
            path.write_bytes(damaged)
            said = last_words(victim)
            assert "Traceback" not in said
            (line,) = [line for line in said.splitlines() if line.startswith("error:")]
            assert re.search(TOLD[name], line)
    finally:
        path.write_bytes(content)
    loaded.start_all()


def snapshot_of(folder: Path) -> Path | None:
    return next((path for path in folder.glob("snapshot*") if path.suffix != ".tmp"), None)


# --- one id twice


def start_beside(loaded: Loaded, machine: Machine, directory: Path) -> Process:
    """Start another process under the id of a controller."""
    port = free_ports(1)[0]
    join = ",".join(f"{LOOPBACK}:{each}" for each in loaded.cluster.ports)
    words = ["--id", str(machine.number), "--listen", f"{LOOPBACK}:{port}", "--join", join]
    return Process(
        ["controller", "start", *words, "--dir", str(directory)],
        loaded.cluster.work / "beside.log",
        {},
    )


def test_a_copy_of_a_controller_beside_it_does_no_harm(loaded: Loaded, tmp_path: Path) -> None:
    victim = follower_of(loaded.cluster)
    victim.kill()
    shutil.copytree(victim.data, tmp_path / "copy")
    loaded.cluster.start()
    with start_beside(loaded, victim, tmp_path / "copy"):
        deadline_s = time.monotonic() + ASIDE_S
        while time.monotonic() < deadline_s:
            loaded.wait_for_writes(10)
    loaded.wait_for_writes(SOME)


def test_a_stranger_with_the_id_of_a_controller_gets_no_vote(
    loaded: Loaded, tmp_path: Path
) -> None:
    victim = follower_of(loaded.cluster)
    victim.kill()
    with start_beside(loaded, victim, tmp_path / "empty"):
        loaded.wait_for_writes(SOME)
        leader = loaded.cluster.leader(WAIT_S_MAX)
        assert leader is not None
        view = local_view(loaded, leader)
        assert view is not None
        voters = {voter.node_id: voter.directory_id for voter in view.voters}
        assert len(voters) == len(loaded.cluster.machines)
        # The stranger is no majority with one of the two that are left.
        other = next(x for x in loaded.cluster.machines if x not in (leader, victim))
        other.kill()
        before = loaded.history.acknowledged
        time.sleep(ASIDE_S)
        assert loaded.history.acknowledged <= before + CLIENTS  # what was under way
        loaded.start_all()  # it keeps nobody out, either


def test_two_processes_never_share_a_directory(loaded: Loaded) -> None:
    machine = loaded.cluster.machines[0]
    other = start_beside(loaded, machine, machine.data)
    try:
        assert other.wait(ENDS_S_MAX) == 1
        assert "in use by another" in other.log()
    except subprocess.TimeoutExpired:
        pytest.fail("two controllers run on one directory")
    finally:
        other.kill()
    loaded.wait_for_writes(10)
