"""``kafka-metadata-quorum``, ``-leader-election``, ``-log-dirs`` and ``-reassign-partitions``."""

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from quorate.client.admin import Admin
from quorate.client.admin_results import ConfigChange, ConfigOperation, ConfigResource, LogDir
from quorate.errors import ErrorCode, KafkaError, QuorateError
from quorate.model import TopicPartition
from quorate.tools.output import id_text
from quorate.tools.shims.arguments import Given, ShimError, options
from quorate.tools.shims.asking import (
    administering,
    client,
    java_error,
    message_of,
    number_list,
    repeated,
    told,
)

# --- kafka-metadata-quorum

QUORUM: Final = options(
    "status replication human-readable", "controller-id controller-directory-id", positional=True
)


async def metadata_quorum(given: Given, environment: Mapping[str, str]) -> Iterator[str]:
    """Carry out ``kafka-metadata-quorum describe``; return the lines to print.

    Raises:
        ShimError: it is not to be described, or nobody answers.
    """
    if given.words[:1] in (["add-controller"], ["remove-controller"]):
        verb = given.words[0].partition("-")[0]
        raise ShimError(f"kafka-metadata-quorum {given.words[0]}: use quorate quorum {verb} ID")
    if given.words != ["describe"] or ("status" in given) == ("replication" in given):
        raise ShimError("Error: one of --status or --replication must be specified with describe")
    if "human-readable" in given and "replication" not in given:
        raise ShimError("The option --human-readable is only supported along with --replication")
    async with administering(given, environment, _failed) as admin:
        quorum = await admin.describe_quorum()
        cluster = await admin.describe_cluster()
    replicas = (*quorum.voters, *quorum.observers)
    leader = next((r for r in replicas if r.node_id == quorum.leader_id), None)
    if "replication" in given:
        return iter(_replication(quorum, leader, readable="human-readable" in given))
    end = 0 if leader is None else leader.log_end_offset
    others = [r for r in replicas if r is not leader]
    lag = max((end - r.log_end_offset for r in others), default=0)
    caught_up = 0 if leader is None else leader.last_caught_up_ms
    times = [caught_up - r.last_caught_up_ms if r.last_caught_up_ms > 0 else -1 for r in others]
    lines = (
        ("ClusterId", cluster.cluster_id),
        ("LeaderId", quorum.leader_id),
        ("LeaderEpoch", quorum.leader_epoch),
        ("HighWatermark", quorum.high_watermark),
        ("MaxFollowerLag", max(0, lag)),
        ("MaxFollowerLagTimeMs", max([0, *times])),
        ("CurrentVoters", f"[{', '.join(map(_replica_text, quorum.voters))}]"),
        ("CurrentObservers", f"[{', '.join(map(_replica_text, quorum.observers))}]"),
    )
    return iter(f"{f'{name}:':<24}{value}" for name, value in lines)


def _replica_text(replica: Any) -> str:
    """Return a replica as Kafka writes it, which is nearly JSON."""
    parts = [f'"id": {replica.node_id}', f'"directoryId": "{id_text(replica.directory_id)}"']
    if replica.endpoint is not None:
        where = replica.endpoint
        parts.append(f'"endpoints": ["CONTROLLER://{where.host}:{where.port}"]')
    return "{" + ", ".join(parts) + "}"


def _replication(quorum: Any, leader: Any, *, readable: bool) -> list[str]:
    heading = (
        "NodeId", "DirectoryId", "LogEndOffset", "Lag", "LastFetchTimestamp",
        "LastCaughtUpTimestamp", "Status",
    )  # fmt: skip
    end = 0 if leader is None else leader.log_end_offset
    now_ms = time.time_ns() // 1_000_000
    rows: list[tuple[str, ...]] = []
    voters = [(r, "Leader" if r is leader else "Follower") for r in quorum.voters]
    for replica, status in [*voters, *((r, "Observer") for r in quorum.observers)]:
        times = [
            f"{now_ms - at} ms ago" if readable and at >= 0 else str(at)
            for at in (replica.last_fetch_ms, replica.last_caught_up_ms)
        ]
        rows.append(
            (
                str(replica.node_id), id_text(replica.directory_id), str(replica.log_end_offset),
                str(end - replica.log_end_offset), *times, status,
            )
        )  # fmt: skip
    widths = [max(len(row[at]) for row in (heading, *rows)) for at in range(len(heading))]
    return [
        "\t".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + "\t"
        for row in (heading, *rows)
    ]


# --- kafka-leader-election

ELECTION: Final = options(
    "all-topic-partitions", "election-type topic partition path-to-json-file admin.config"
)


async def leader_election(given: Given, environment: Mapping[str, str]) -> Iterator[str]:
    """Carry out ``kafka-leader-election``; return the lines to print.

    Raises:
        ShimError: it failed.
    """
    given.check("bootstrap-server", "election-type")
    given.one_of(
        ("topic", "all-topic-partitions", "path-to-json-file"),
        "One and only one of the following options is required: topic, all-topic-partitions, "
        "path-to-json-file",
    )
    kind = given.one("election-type").lower()
    if kind not in {"preferred", "unclean"}:
        raise ShimError(f"Cannot parse argument '{kind}' of option election-type")
    partitions: list[TopicPartition] | None = None
    if "path-to-json-file" in given:
        try:
            partitions = [
                TopicPartition(each["topic"], int(each["partition"]))
                for each in _json_file(given.one("path-to-json-file"))["partitions"]
            ]
        except (KeyError, TypeError, ValueError) as error:
            raise ShimError(f"The election json file cannot be read: {error!r}") from None
    elif "topic" in given:
        given.check("partition")
        partitions = [TopicPartition(given.one("topic"), given.number("partition") or 0)]
    try:
        async with client(given, environment).admin() as admin:
            results = await admin.elect_leaders(partitions, unclean=kind == "unclean")
    except QuorateError as error:
        raise ShimError(f"Error while making request: {java_error(error)}") from None
    return iter(_election_lines(results, kind))


def _election_lines(
    results: Mapping[TopicPartition, QuorateError | None], kind: str
) -> Iterator[str]:
    done = [str(p) for p, error in results.items() if error is None]
    needless = {
        p
        for p, error in results.items()
        if isinstance(error, KafkaError) and error.code == ErrorCode.ELECTION_NOT_NEEDED
    }
    if done:
        names = ", ".join(done)
        yield f"Successfully completed leader election ({kind.upper()}) for partitions {names}"
    if needless:
        yield f"Valid replica already elected for partitions {', '.join(map(str, needless))}"
    failed = {p: e for p, e in results.items() if e is not None and p not in needless}
    for partition, error in failed.items():
        yield (
            f"Error completing leader election ({kind.upper()}) for partition: {partition}: "
            f"{java_error(error)}"
        )
    if failed:
        raise ShimError(f"{len(failed)} replica(s) could not be elected")


# --- kafka-log-dirs

LOG_DIRS: Final = options("describe", "topic-list broker-list")


async def log_dirs(given: Given, environment: Mapping[str, str]) -> Iterator[str]:
    """Carry out ``kafka-log-dirs``; return the lines to print.

    Raises:
        ShimError: a broker does not exist.
    """
    given.check("bootstrap-server", "describe")
    wanted = {name for name in given.one("topic-list").split(",") if name}
    try:
        asked = [int(text) for text in given.one("broker-list").split(",") if text]
    except ValueError:
        raise ShimError(f"{given.one('broker-list')} does not name brokers") from None
    async with client(given, environment).admin() as admin:
        there = [broker.broker_id for broker in (await admin.describe_cluster()).brokers]
        missing = [broker_id for broker_id in asked if broker_id not in there]
        if missing:
            raise ShimError(
                f"ERROR: The given brokers do not exist from --broker-list: "
                f"{','.join(map(str, missing))}. Current existent brokers: "
                f"{','.join(map(str, there))}"
            )
        found = await admin.describe_log_dirs(asked or there)
    document = {
        "brokers": [
            {"broker": b, "logDirs": [_log_dir(each, wanted) for each in told(dirs).log_dirs]}
            for b, dirs in found.items()
        ],
        "version": 1,
    }
    names = ",".join(map(str, found))
    return iter(
        (
            "Querying brokers for log directories information",
            f"Received log directory information from brokers {names}",
            compact(document),
        )
    )


def _log_dir(directory: LogDir, wanted: set[str]) -> dict[str, Any]:
    return {
        "partitions": [
            {
                "partition": str(partition),
                "size": replica.size_bytes,
                "offsetLag": replica.offset_lag,
                "isFuture": replica.is_future,
            }
            for partition, replica in directory.replicas.items()
            if not wanted or partition.topic in wanted
        ],
        "error": None if directory.error is None else java_error(directory.error),
        "logDir": directory.path,
    }


def compact(document: Any) -> str:
    """Return JSON as Kafka's tools write it."""
    return json.dumps(document, separators=(",", ":"))


def _json_file(path: str) -> Any:
    try:
        return json.loads(Path(path).read_text())
    except (OSError, ValueError) as error:
        raise ShimError(f"{path} cannot be read: {error}") from None


# --- kafka-reassign-partitions

REASSIGN: Final = options(
    "generate execute verify cancel list additional preserve-throttles disable-rack-aware",
    "topics-to-move-json-file reassignment-json-file broker-list throttle"
    " replica-alter-log-dirs-throttle timeout",
)
BELONGS_TO: Final = {
    "topics-to-move-json-file": {"generate"},
    "broker-list": {"generate"},
    "disable-rack-aware": {"generate"},
    "reassignment-json-file": {"execute", "verify", "cancel"},
    "throttle": {"execute"},
    "replica-alter-log-dirs-throttle": {"execute"},
    "additional": {"execute"},
    "timeout": {"execute", "cancel"},
    "preserve-throttles": {"verify", "cancel"},
}
UNTIL_VERIFIED: Final = (
    "Warning: You must run --verify periodically, until the reassignment completes, to ensure the "
    "throttle is removed."
)
RATES: Final = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")
REPLICAS: Final = (
    "leader.replication.throttled.replicas",
    "follower.replication.throttled.replicas",
)


async def reassign_partitions(given: Given, environment: Mapping[str, str]) -> Iterator[str]:
    """Carry out ``kafka-reassign-partitions``; return the lines to print.

    Raises:
        ShimError: it failed.
    """
    given.check("bootstrap-server")
    action = given.one_of(
        ("generate", "execute", "verify", "cancel", "list"),
        "Command must include exactly one action: --generate, --execute, --verify, --cancel, "
        "--list.",
    )
    given.check_goes_with(action, BELONGS_TO)
    run = {
        "generate": _generate, "execute": _execute, "verify": _verify, "cancel": _cancel,
        "list": _list_moves,
    }[action]  # fmt: skip
    async with administering(given, environment, _failed) as admin:
        return iter(await run(admin, given))


def _failed(error: QuorateError) -> ShimError:
    return ShimError(f"Error: {message_of(error)}")


def _plan(given: Given) -> dict[TopicPartition, tuple[int, ...]]:
    """Return what a file says, as it is read also where nothing is changed.

    Raises:
        ShimError: it is not readable, or says two things of a partition.
    """
    given.check("reassignment-json-file")
    try:
        rows = [
            (
                TopicPartition(each["topic"], int(each["partition"])),
                tuple(map(int, each["replicas"])),
            )
            for each in _json_file(given.one("reassignment-json-file"))["partitions"]
        ]
    except (KeyError, TypeError, ValueError) as error:
        raise ShimError(f"Error: the reassignment is not readable: {error!r}") from None
    twice = repeated(partition for partition, _ in rows)
    if twice:
        raise ShimError(
            f"Error: Partition reassignment contains duplicate topic partitions: {twice}"
        )
    return dict(rows)


async def _check_plan(admin: Admin, plan: Mapping[TopicPartition, tuple[int, ...]]) -> None:
    """Refuse a plan of which only a part could be carried out.

    Raises:
        ShimError: it is empty, or names brokers twice, or some that there are not.
    """
    if not plan:
        raise ShimError("Error: Partition reassignment list cannot be empty")
    if not all(plan.values()):
        raise ShimError("Error: Partition replica list cannot be empty")
    for partition, replicas in plan.items():
        if twice := repeated(replicas):
            raise ShimError(
                "Error: Partition replica lists may not contain duplicate entries: "
                f"{partition} contains multiple entries for {twice}"
            )
    there = {broker.broker_id for broker in (await admin.describe_cluster()).brokers}
    for broker_id in sorted({b for replicas in plan.values() for b in replicas}):
        if broker_id not in there:
            raise ShimError(f"Error: Unknown broker id {broker_id}")


async def _current(admin: Admin, topics: Sequence[str]) -> dict[TopicPartition, tuple[int, ...]]:
    found = await admin.describe_topics(topics)
    return {
        TopicPartition(name, partition.partition): partition.replicas
        for name in sorted(found)
        for partition in told(found[name]).partitions
    }


async def _paths(admin: Admin) -> dict[tuple[int, TopicPartition], str]:
    """Return the directory of each replica."""
    return {
        (broker_id, partition): directory.path
        for broker_id, dirs in (await admin.describe_log_dirs()).items()
        if not isinstance(dirs, QuorateError)
        for directory in dirs.log_dirs
        for partition in directory.replicas
    }


def _document(
    assigned: Mapping[TopicPartition, Sequence[int]],
    paths: Mapping[tuple[int, TopicPartition], str],
) -> str:
    partitions = [
        {
            "topic": partition.topic,
            "partition": partition.partition,
            "replicas": list(replicas),
            "log_dirs": [paths.get((broker, partition), "any") for broker in replicas],
        }
        for partition, replicas in assigned.items()
    ]
    return compact({"version": 1, "partitions": partitions})


async def _generate(admin: Admin, given: Given) -> list[str]:
    given.check("topics-to-move-json-file", "broker-list")
    try:
        document = _json_file(given.one("topics-to-move-json-file"))
        names = [each["topic"] for each in document.get("topics", ())]
        brokers = [int(text) for text in given.one("broker-list").split(",")]
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ShimError(f"Error: the topics or the brokers are not readable: {error!r}") from None
    if twice := repeated(brokers):
        raise ShimError(f"Error: Broker list contains duplicate entries: [{twice}]")
    there = {broker.broker_id for broker in (await admin.describe_cluster()).brokers}
    unknown = [broker_id for broker_id in brokers if broker_id not in there]
    if unknown:
        raise ShimError(f"Error: Unknown broker id {number_list(unknown)}")
    current = await _current(admin, names)
    proposed: dict[TopicPartition, list[int]] = {}
    for at, (partition, replicas) in enumerate(current.items()):
        if len(replicas) > len(brokers):
            raise ShimError(
                f"Error: Replication factor: {len(replicas)} larger than available brokers: "
                f"{len(brokers)}"
            )
        proposed[partition] = [brokers[(at + n) % len(brokers)] for n in range(len(replicas))]
    return [
        "Current partition replica assignment", _document(current, await _paths(admin)), "",
        "Proposed partition reassignment configuration", _document(proposed, {}),
    ]  # fmt: skip


async def _execute(admin: Admin, given: Given) -> list[str]:
    plan = _plan(given)
    await _check_plan(admin, plan)
    moving = await admin.list_partition_reassignments(plan)
    if moving and "additional" not in given:
        raise ShimError(
            "Cannot execute because there is an existing partition assignment.  Use --additional "
            "to override this and create a new partition assignment in addition to the existing "
            "one. The --additional option can also be used to change the throttle by resubmitting "
            "the current reassignment."
        )
    current = await _current(admin, sorted({p.topic for p in plan}))
    before = {p: replicas for p, replicas in current.items() if p in plan}
    lines = [
        "Current partition replica assignment", "", _document(before, await _paths(admin)), "",
        "Save this to use as the --reassignment-json-file option during rollback",
    ]  # fmt: skip
    throttle = given.number("throttle")
    if throttle is not None:
        lines += await _throttle(admin, before, plan, throttle)
    results = await admin.alter_partition_reassignments(plan)
    failed = {p: error for p, error in results.items() if error is not None}
    if failed:
        text = "\n".join(f"{p}: {message_of(error)}" for p, error in failed.items())
        raise ShimError("\n".join((*lines, f"Error reassigning partition(s):\n{text}")))
    noun = "reassignment" if len(plan) == 1 else "reassignments"
    names = ",".join(map(str, sorted(plan)))
    return [*lines, f"Successfully started partition {noun} for {names}"]


async def _throttle(
    admin: Admin,
    before: Mapping[TopicPartition, Sequence[int]],
    plan: Mapping[TopicPartition, Sequence[int]],
    rate: int,
) -> list[str]:
    """Have the replicas that move go no faster than a rate."""
    brokers = sorted({b for each in (before, plan) for replicas in each.values() for b in replicas})
    changes: dict[ConfigResource, list[ConfigChange]] = {
        ConfigResource.broker(b): [ConfigChange(name, str(rate)) for name in RATES] for b in brokers
    }
    for topic in {p.topic for p in plan}:
        sides = (
            [f"{p.partition}:{b}" for p in plan if p.topic == topic for b in before.get(p, ())],
            [
                f"{p.partition}:{b}"
                for p in plan if p.topic == topic
                for b in plan[p] if b not in before.get(p, ())
            ],
        )  # fmt: skip
        changes[ConfigResource.topic(topic)] = [
            ConfigChange(name, ",".join(each)) for name, each in zip(REPLICAS, sides, strict=True)
        ]
    for error in (await admin.alter_configs(changes)).values():
        told(error)
    return [
        UNTIL_VERIFIED,
        f"The inter-broker throttle limit was set to {rate} B/s",
    ]


async def _verify(admin: Admin, given: Given) -> list[str]:
    plan = _plan(given)
    moving = await admin.list_partition_reassignments(plan)
    current = await _current(admin, sorted({p.topic for p in plan}))
    lines = ["Status of partition reassignment:"]
    for partition, wanted in sorted(plan.items()):
        if partition in moving:
            lines.append(f"Reassignment of partition {partition} is still in progress.")
        elif current.get(partition) == wanted:
            lines.append(f"Reassignment of partition {partition} is completed.")
        else:
            now = ",".join(map(str, current.get(partition, ())))
            lines.append(
                f"There is no active reassignment of partition {partition}, but replica set is "
                f"{now} rather than {','.join(map(str, wanted))}."
            )
    if moving or "preserve-throttles" in given:
        return lines
    return [*lines, *await _unthrottle(admin, sorted({p.topic for p in plan}))]


async def _unthrottle(admin: Admin, topics: Sequence[str]) -> list[str]:
    brokers = sorted(b.broker_id for b in (await admin.describe_cluster()).brokers)
    names = (*RATES, "replica.alter.log.dirs.io.max.bytes.per.second")
    changes = {
        **{ConfigResource.broker(b): _deleted(names) for b in brokers},
        **{ConfigResource.topic(topic): _deleted(REPLICAS) for topic in topics},
    }
    for error in (await admin.alter_configs(changes)).values():
        told(error)
    noun = "broker" if len(brokers) == 1 else "brokers"
    kind = "topic" if len(topics) == 1 else "topics"
    return [
        "",
        f"Clearing broker-level throttles on {noun} {','.join(map(str, brokers))}",
        f"Clearing topic-level throttles on {kind} {','.join(topics)}",
    ]


def _deleted(names: Sequence[str]) -> list[ConfigChange]:
    return [ConfigChange(name, None, ConfigOperation.DELETE) for name in names]


async def _cancel(admin: Admin, given: Given) -> list[str]:
    plan = _plan(given)
    moving = await admin.list_partition_reassignments(plan)
    if not moving:
        return ["None of the specified partition reassignments are active."]
    for error in (await admin.alter_partition_reassignments(dict.fromkeys(moving))).values():
        told(error)
    names = ",".join(map(str, sorted(moving)))
    lines = [f"Successfully cancelled partition reassignments for: {names}"]
    if "preserve-throttles" not in given:
        lines += (await _unthrottle(admin, sorted({p.topic for p in plan})))[1:]
    return lines


async def _list_moves(admin: Admin, given: Given) -> list[str]:
    del given
    moving = await admin.list_partition_reassignments()
    if not moving:
        return ["No partition reassignments found."]
    lines = ["Current partition reassignments:"]
    for partition, move in sorted(moving.items()):
        text = f"{partition}: replicas: {','.join(map(str, move.replicas))}."
        if move.adding:
            text += f" adding: {','.join(map(str, move.adding))}."
        if move.removing:
            text += f" removing: {','.join(map(str, move.removing))}."
        lines.append(text)
    return lines
