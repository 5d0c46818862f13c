"""What ``--format json`` has is what programs rely on: names and types stay as they are.

``tests/golden/cli_json.json`` has them for every command that prints JSON. A column that is gone or
of another type breaks somebody: then ``SCHEMA_VERSION`` grows. ``REWRITE=1`` writes the file anew.
"""

import gzip
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from quorate.client.sync import Admin, Consumer, Producer
from quorate.tools.cli import run_command
from quorate.tools.cluster_directory import ClusterDirectory
from quorate.tools.clusters.layout import Layout, Member
from tests.compat.serving import Broker, quorate
from tests.conftest import IN_A_HURRY
from tests.unit.tools.test_examples import PATHS

pytestmark = pytest.mark.integration

GOLDEN = Path(__file__).parents[1] / "golden" / "cli_json.json"
SCHEMAS: dict[str, Any] = json.loads(GOLDEN.read_text()) if GOLDEN.exists() else {}
COMMANDS = (
    "topics list",
    "topics describe orders",
    "topics describe orders -a",
    "topics stats orders",
    "topics find orders --key k",
    "partitions list orders",
    "partitions describe orders:0",
    "partitions verify orders",
    "partitions reassign status",
    "partitions reassign plan orders --to 1",
    "partitions reassign apply orders:0=1 --dry-run",
    "groups list",
    "groups describe billing",
    "groups describe billing --members",
    "groups describe billing --state",
    "groups lag billing -n 1",
    "groups reset billing -t orders --to-earliest",
    "groups delete-offsets billing -t orders --dry-run",
    "offsets orders",
    "offsets orders --time -1",
    "configs describe topic/orders --all",
    "configs get topic/orders retention.ms",
    "configs diff topic/orders",
    "configs list",
    "broker list",
    "broker describe 1",
    "broker describe 1 --dirs",
    "broker describe 1 --api-versions",
    "quorum status",
    "quorum replication",
    "metadata at now --dir {dir}",
    "metadata cat --dir {dir}",
    "metadata diff 1 --dir {dir}",
    "metadata export --dir {dir} --to {cluster}/m.json",
    "why leader orders:0 --dir {dir}",
    "why isr orders:0 --dir {dir}",
    "why lag billing --dir {dir}",
    "why stuck paid:0 --dir {dir}",
    "why rejected orders --dir {dir}",
    "status",
    "version",
    "log verify {dir}",
    "log dump {dir}/orders-0",
    "log tail-segments {dir}/orders-0 --from-beginning -n 1",
    "doctor connect {bootstrap}",
    "doctor machine",
    "spark check orders",
    "profile list",
    "profile show p",
    "consume orders --from-beginning -n 1",
    "topics trim orders --before 0 --dry-run",
    "verify list --workloads",
    "connect check {golden}/connectors.toml",
    "bench produce measured -n 200 --transactional",
    "bench consume orders",
    "bench e2e measured -n 5",
    "bench metadata -n 3",
    "txns list",
    "txns describe payments",
    "txns producers paid",
    "txns find-hanging paid --max-transaction-timeout 0",
    "features describe",
    "features upgrade",
    "features downgrade transaction.version=1 --dry-run",
    "storage format --dir {cluster}/node --dry-run",
    "storage info --dir {dir}",
    "storage random-uuid",
    "demo list",
    "chaos list --dir {cluster}",
)
NO_TABLE = {
    "they do something, and say so in a line": (
        "topics create", "topics alter", "topics delete", "topics export", "configs set",
        "configs unset", "partitions elect", "partitions reassign cancel", "produce", "down",
        "groups undo", "groups delete", "groups kick", "txns abort", "quorum add", "quorum remove",
        "quorum transfer", "broker drain", "broker undrain", "broker decommission",
        "broker unregister", "chaos kill",
        "chaos pause", "chaos resume", "chaos start", "chaos skew", "chaos slow-disk", "chaos heal",
        "chaos partition", "profile add", "profile use",
        "profile remove", "spark read",
    ),
    "they run, and tell events as lines of JSON: test_clusters, test_controller, test_cli": (
        "up", "broker start", "controller start", "quorum watch", "connect run",
    ),
    "they are a screen, a shell, or a script": (
        "tui", "metadata shell", "completion", "spark example",
    ),
    "they need other nodes: test_cli_groups": ("why offline", "why rebalance"),
    "they judge histories: test_verify": (
        "verify run", "verify check", "verify report", "verify show", "verify mutants",
    ),
}  # fmt: skip
"""Commands without a document of their own here, and why."""


def test_every_command_has_its_shape_here_or_a_reason_why_not() -> None:
    shown = {path for command in COMMANDS for path in PATHS if f"{command} ".startswith(f"{path} ")}
    excused = {path for paths in NO_TABLE.values() for path in paths}
    assert set(PATHS) - shown - excused == set()
    assert shown & excused == set()


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A node with a topic of two records, a group that has read one, and an open transaction."""
    with quorate(IN_A_HURRY, tmp_path_factory.mktemp("json")) as running:
        where = running.server.bootstrap
        with Admin(where) as admin, Producer(where) as producer:
            admin.create_topic("paid", partitions=1)
            admin.create_topic("orders", partitions=2, configs={"retention.ms": "86400000"})
            producer.send("orders", b'{"amount": 1}', key=b"k", headers=[("h", b"x")])
            producer.send("orders", b'{"amount": 2}', key=b"k")
            with Consumer(where, group_id="billing", auto_offset_reset="earliest") as consumer:
                consumer.subscribe("orders")
                while not consumer.poll():
                    pass
                consumer.commit()
        paying: Any = {"transactional_id": "payments", "transaction_timeout_ms": 600_000}
        with Producer(where, **paying) as producer:
            with producer.transaction() as before:
                before.send("paid", b"11", partition=0)
            transaction = producer.transaction()
            transaction.__enter__()
            transaction.send("paid", b"12", partition=0)
            yield running
            transaction.abort()


@pytest.fixture
def told(
    node: Broker,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Any:
    profiles = {"version": 1, "current": "", "profiles": {"p": {"bootstrap": "h:1"}}}
    cluster = ClusterDirectory(tmp_path / "cluster")
    cluster.make()
    cluster.write_layout(Layout((Member("controller", 101, 1), Member("broker", 1, 2))))
    (tmp_path / "profiles.json").write_text(json.dumps(profiles))
    monkeypatch.setenv("QUORATE_PROFILES", str(tmp_path / "profiles.json"))
    monkeypatch.setenv("QUORATE_BOOTSTRAP", node.server.bootstrap)

    def tell(command: str) -> tuple[int, str]:
        data, bootstrap = node.data.parent / "data", node.server.bootstrap
        where = {"bootstrap": bootstrap, "cluster": cluster.path, "golden": GOLDEN.parent}
        words = command.format(dir=data, **where)
        code = run_command(words.split())
        captured = capsys.readouterr()
        assert "Traceback" not in captured.err
        assert captured.out or code == 0, captured.err
        return code, captured.out

    return tell


def shape(value: Any) -> Any:
    """Return a document's names and types: of lists, those of all items together."""
    if isinstance(value, dict):
        fields: dict[str, Any] = value  # pyright: ignore[reportUnknownVariableType]
        return {name: shape(inner) for name, inner in sorted(fields.items())}
    if isinstance(value, list):
        items: list[Any] = value  # pyright: ignore[reportUnknownVariableType]
        shapes = [shape(inner) for inner in items]
        if shapes and all(isinstance(each, dict) for each in shapes):
            return [{name: _joined([s.get(name) for s in shapes]) for name in sorted(shapes[0])}]
        return [_joined(shapes)] if shapes else []
    return "null" if value is None else type(value).__name__


def _joined(shapes: list[Any]) -> Any:
    texts = {json.dumps(each): each for each in shapes if each is not None}
    if len(texts) == 1:
        return next(iter(texts.values()))
    plain = {each for each in texts.values() if isinstance(each, str)}
    return "|".join(sorted(plain)) if len(plain) == len(texts) else "any"


def allowed(found: Any, golden: Any) -> bool:
    """Whether a shape is one that the golden one allows; an empty list is of any kind."""
    if isinstance(found, list) and isinstance(golden, list):
        return not found or not golden or allowed(found[0], golden[0])
    if isinstance(found, dict) and isinstance(golden, dict):
        fields: dict[str, Any] = found  # pyright: ignore[reportUnknownVariableType]
        known: dict[str, Any] = golden  # pyright: ignore[reportUnknownVariableType]
        return fields.keys() == known.keys() and all(
            allowed(inner, known[name]) for name, inner in fields.items()
        )
    if isinstance(found, str) and isinstance(golden, str):
        return set(found.split("|")) <= {*golden.split("|"), "null"}
    return golden in ("any", "null") or found == "null"


def is_map(document: Any, name: str) -> bool:
    """Whether the names in an object are somebody's, and no columns."""
    return isinstance(document.get(name), dict) and name in {"configs", "contents", "properties"}


@pytest.mark.parametrize("command", COMMANDS)
def test_json_has_the_names_and_types_that_it_had(command: str, told: Any) -> None:
    code, text = told(f"{command} --format json")
    assert code in (0, 3)
    try:
        documents: list[dict[str, Any]] = [json.loads(text)]
    except ValueError:  # a stream of records
        documents = [json.loads(line) for line in text.splitlines()]
    for document in documents:
        objects: list[dict[str, Any]] = [document, *(document.get("items") or [])]
        for one in objects:
            one.update({name: {} for name in one if is_map(one, name)})
    found = shape(documents)
    if os.environ.get("REWRITE"):
        known: dict[str, Any] = json.loads(GOLDEN.read_text()) if GOLDEN.exists() else {}
        known[command] = found
        GOLDEN.write_text(json.dumps(dict(sorted(known.items())), indent=1) + "\n")
        return
    assert allowed(found, SCHEMAS[command]), json.dumps(found)


def test_records_are_found_exported_and_counted(told: Any, tmp_path: Path) -> None:
    assert told("topics find orders --where amount>1 -f %v\\n") == (0, '{"amount": 2}\n')
    assert told("topics find orders --key k -n 1 -f %k\\n --since -1h") == (0, "k\n")
    assert told("topics find orders --key nobody") == (0, "")
    path = tmp_path / "orders.jsonl.gz"
    assert told(f"topics export orders --to {path}")[0] == 0
    lines = [json.loads(line) for line in gzip.decompress(path.read_bytes()).splitlines()]
    assert [line["value"] for line in lines] == ['{"amount": 1}', '{"amount": 2}']
    assert told(f"-q topics export orders --to {path} --overwrite") == (0, "")
    assert list(tmp_path.glob(".*")) == []
    columns = told("topics stats orders")[1].splitlines()[1].split()
    assert columns[:4] == ["orders", "2", "2", "2"]


def test_a_file_that_is_there_is_kept(told: Any, tmp_path: Path) -> None:
    path = tmp_path / "orders.csv"
    path.write_text("mine")
    with pytest.raises(AssertionError, match="is there already"):
        told(f"topics export orders --to {path}")
    assert path.read_text() == "mine"


def test_an_open_transaction_is_named_with_what_it_keeps_from_readers(told: Any) -> None:
    code, text = told("why stuck paid:0 --dir {dir} --json")
    assert code == 0
    assert "a transaction of payments is open since" in json.loads(text)["headline"]
    code, text = told("why rejected --transactional-id payments --dir {dir} --json")
    assert code == 0
    said = [(line["log"], line["text"]) for line in json.loads(text)["lines"]]
    assert any(log.startswith("__transaction_state-") and "Ongoing" in what for log, what in said)
