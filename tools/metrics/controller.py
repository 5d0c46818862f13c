"""What a controller tells: read from it when somebody asks; changes counted at each look."""

from collections.abc import Iterator

from quorate.control.messages import NO_NODE
from quorate.model import NO_LEADER
from quorate.quorum.control.succession import LAST_KNOWN, UNCLEAN
from quorate.quorum.controller import Controller
from quorate.quorum.metadata.codec import decode_those
from quorate.quorum.metadata.image import MetadataImage, PartitionState
from quorate.quorum.metadata.machine import MetadataMachine
from quorate.quorum.metadata.records import MetadataRecord, PartitionChanged
from quorate.tools.metrics.specs import Sample


class ChangeCounter:
    """Counts what the newest records changed.

    State: the version up to which they are counted. What came before this process began, or came
    so fast that it is a snapshot by now, is not counted.
    """

    def __init__(self, machine: MetadataMachine) -> None:
        self.elections = 0
        self.unclean = 0
        self.isr_changes = 0
        self._machine = machine
        self._image = machine.image

    def look(self) -> None:
        """Count what is new."""
        while (version := self._image.version) < self._machine.image.version:
            if self._machine.needs_snapshot(version):
                self._image = self._machine.image
                return
            answer = self._machine.since(version)
            before = self._image
            for batch in answer.batches:
                for record in decode_those(batch.records, (PartitionChanged,)):
                    self._count(record, before)
            self._image = self._machine.image

    def _count(self, record: MetadataRecord, before: MetadataImage) -> None:
        if not isinstance(record, PartitionChanged):
            return
        topic = before.topic_of(record.topic_id)
        old: PartitionState | None = None
        if topic is not None and record.partition < len(topic.partitions):
            old = topic.partitions[record.partition]
        if old is None or set(record.isr) != set(old.isr):
            self.isr_changes += 1
        if record.leader_id == NO_LEADER:
            return
        if old is None or record.leader_epoch != old.leader_epoch:
            self.elections += 1
            self.unclean += UNCLEAN in record.cause or LAST_KNOWN in record.cause


class ControllerMetrics:
    """Reads a controller's metrics; counts terms and changes at each look."""

    def __init__(self, controller: Controller) -> None:
        self._controller = controller
        self._changes = ChangeCounter(controller.raft.machine)
        self._first_term = controller.raft.term

    @property
    def is_ready(self) -> bool:
        """Whether the controller knows who leads the quorum, and has room for what they decide."""
        raft = self._controller.raft
        return raft.rounds.leader is not None and not raft.log_full

    def look(self) -> None:
        """Count what is new."""
        self._changes.look()

    def samples(self) -> Iterator[Sample]:
        """Yield all that there is to tell."""
        self.look()
        yield from self._quorum()
        yield from self._metadata()
        changes = self._changes
        unclean = changes.unclean
        yield Sample("kafka_controller_controllerstats_uncleanleaderelections", unclean)
        yield Sample("quorate_controller_leader_elections", changes.elections)
        yield Sample("quorate_controller_isr_changes", changes.isr_changes)

    def _quorum(self) -> Iterator[Sample]:
        raft = self._controller.raft
        rounds = raft.rounds
        leader_id = NO_NODE if rounds.leader is None else rounds.leader.node_id
        prefix = "kafka_server_raft_metrics_"
        active = int(raft.is_leader)
        yield Sample("kafka_controller_kafkacontroller_activecontrollercount", active)
        yield Sample(prefix + "current_leader", leader_id)
        yield Sample(prefix + "current_epoch", rounds.term)
        yield Sample(prefix + "high_watermark", rounds.commit_index + 1)
        yield Sample(prefix + "log_end_offset", rounds.last_index + 1)
        yield Sample(prefix + "number_of_voters", len(rounds.voters))
        yield Sample("quorate_quorum_elections", rounds.term - self._first_term)
        yield Sample("quorate_quorum_log_syncs", raft.flush_count)
        yield Sample("quorate_quorum_log_sync_seconds", raft.flush_s)
        yield Sample("quorate_quorum_disk_full", int(raft.disk_full))

    def _metadata(self) -> Iterator[Sample]:
        image = self._controller.image
        prefix = "kafka_controller_kafkacontroller_"
        live = len(image.live_broker_ids())
        topics = list(image.topics.values())
        offline = sum(topic.leaderless for topic in topics)
        moved = sum(
            state.leader_id not in (state.replicas[0], NO_LEADER)
            for topic in topics
            for state in topic.partitions
        )
        yield Sample(prefix + "activebrokercount", live)
        yield Sample(prefix + "fencedbrokercount", len(image.brokers) - live)
        yield Sample(prefix + "globaltopiccount", len(topics))
        yield Sample(prefix + "globalpartitioncount", sum(len(t.partitions) for t in topics))
        yield Sample(prefix + "offlinepartitionscount", offline)
        yield Sample(prefix + "preferredreplicaimbalancecount", moved)
        yield Sample(prefix + "lastappliedrecordoffset", image.version)
