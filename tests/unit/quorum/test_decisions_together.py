"""Whatever is decided in whatever order, the facts stay consistent, on whoever follows them."""

from dataclasses import fields
from random import Random
from typing import Any

import pytest

from quorate.control import messages as m
from quorate.control.feature_messages import FeatureUpdate, UpdateFeatures, Upgrade
from quorate.control.partition_messages import (
    AlterPartition,
    AlterReassignments,
    ChangeBroker,
    Election,
    ElectLeaders,
    InSyncReplica,
    PartitionAlteration,
)
from quorate.errors import DuplicateBrokerRegistrationError, ErrorCode, KafkaError
from quorate.model import NO_LEADER, Endpoint
from quorate.quorum.control import (
    brokers,
    configs,
    elections,
    features,
    partitions,
    reassignments,
    topics,
)
from quorate.quorum.control.decision import Decision, Reason
from quorate.quorum.metadata import records as r
from quorate.quorum.metadata.applying import apply_batch, draft_records
from quorate.quorum.metadata.codec import decode_batch
from quorate.quorum.metadata.delta import MetadataDelta, Touched, difference
from quorate.quorum.metadata.features import METADATA_VERSION, SUPPORTED, bootstrap_records
from quorate.quorum.metadata.image import EMPTY_IMAGE, BrokerImage, MetadataImage, PartitionState
from quorate.quorum.metadata.machine import (
    Committed,
    MetadataMachine,
    decode_command,
    encode_command,
)
from quorate.quorum.metadata.snapshot import decode_image, encode_image
from quorate.quorum.metadata.topic_names import metric_name
from quorate.settings import NodeConfig

NAMES = ("a", "b", "a.b", "a_b", "c")
DEFAULTS = topics.TopicDefaults(2, 2)
TIMEOUT_MS = 1000
SEEDS = 8
STEPS = 250


class World:
    """A controller decides; one follower gets batches, another begins anew from snapshots."""

    def __init__(self, seed: int) -> None:
        self.controller = MetadataMachine()
        self.restarted = MetadataMachine()
        self.follower = EMPTY_IMAGE
        self.index = 0
        self.now_ms = 0
        self.rng = Random(seed)
        self.sessions = brokers.Sessions(0, TIMEOUT_MS)
        self.commit(bootstrap_records("cluster", 0))

    @property
    def image(self) -> MetadataImage:
        return self.controller.image

    def commit(self, records: tuple[r.MetadataRecord, ...]) -> None:
        """Have records committed, and check everything that must be so after any commit."""
        if not records:
            return
        self.index += 1
        before = self.image
        command = encode_command(before.version, records)
        self.controller.expect(command, draft_records(before, records))
        assert self.controller.apply(self.index, 1, command) == Committed(self.index)
        assert self.restarted.apply(self.index, 1, command) == Committed(self.index)
        batch = decode_batch(decode_command(command)[1])
        delta = apply_batch(self.follower, self.index, batch)
        self.follower = delta.after
        assert_complete(delta)
        assert_epochs_grow(before, self.image)

    def decide(self, decision: Decision[Any]) -> Any:
        self.commit(decision.records)
        return decision.answer

    # --- brokers

    def a_broker_registers(self) -> None:
        broker_id = self.rng.randint(1, 4)
        request = m.RegisterBroker(
            broker_id,
            self.rng.randbytes(16),
            {"A": Endpoint("h", broker_id)},
            rack=f"r{broker_id % 2}",
            directory_id=self.rng.choice([b"d", b"d", b"d", b"wiped"]),
            features=tuple(SUPPORTED.values()),
            previous_broker_epoch=self.epoch_of(broker_id) if self.rng.random() < 0.5 else -1,
        )
        now = brokers.Now(self.now_ms, self.now_ms)
        try:
            self.decide(brokers.register(self.image, self.sessions, request, now))
        except DuplicateBrokerRegistrationError:
            return
        self.sessions.touch(broker_id, self.now_ms)

    def epoch_of(self, broker_id: int) -> int:
        broker = self.image.brokers.get(broker_id)
        return -1 if broker is None else broker.broker_epoch

    def a_broker_is_drained_or_not(self) -> None:
        broker = self.some_broker()
        if broker is not None and self.image.features[METADATA_VERSION] >= 3:
            request = ChangeBroker(broker.broker_id, not broker.draining)
            self.decide(brokers.change_broker(self.image, request, self.now_ms))

    def a_broker_beats(self) -> None:
        broker = self.some_broker()
        if broker is not None:
            leaves = self.rng.random() < 0.2
            beat = m.BrokerHeartbeat(
                broker.broker_id, broker.broker_epoch, self.index, wants_shut_down=leaves
            )
            self.decide(brokers.heartbeat(self.image, beat, self.now_ms))
            self.sessions.touch(broker.broker_id, self.now_ms)

    def some_broker(self) -> BrokerImage | None:
        return self.image.brokers.get(self.rng.randint(1, 4))

    def time_passes(self) -> None:
        self.now_ms += self.rng.randint(0, TIMEOUT_MS // 2)
        now = brokers.Now(self.now_ms, self.now_ms)
        self.commit(brokers.fence_stale(self.image, self.sessions, now))

    def a_broker_leaves_for_good(self) -> None:
        broker = self.some_broker()
        if broker is not None and broker.fenced:
            request = m.UnregisterBroker(broker.broker_id)
            self.decide(brokers.unregister(self.image, request, self.now_ms))

    def a_broker_takes_producer_ids(self) -> None:
        broker = self.some_broker()
        if broker is not None:
            before = self.image.next_producer_id
            request = m.AllocateProducerIds(broker.broker_id, broker.broker_epoch)
            answer = self.decide(brokers.allocate_producer_ids(self.image, request, self.now_ms))
            assert answer.first_producer_id == before
            assert self.image.next_producer_id == before + answer.count

    # --- topics

    def topics_are_created(self) -> None:
        new = tuple(
            m.NewTopic(
                self.rng.choice(NAMES),
                self.rng.randint(0, 4),
                self.rng.randint(1, 4),
                configs={"retention.ms": "1"},
            )
            for _ in range(self.rng.randint(1, 3))
        )
        decision = topics.create_topics(
            self.image, m.CreateTopics(new), DEFAULTS, self.now_ms, self.rng
        )
        for created in self.decide(decision).topics:
            if created.failure == m.DONE:
                assert self.image.topics[created.name].topic_id == created.topic_id

    def a_topic_is_deleted(self) -> None:
        name = self.rng.choice(NAMES)
        self.decide(topics.delete_topics(self.image, m.DeleteTopics((name,)), self.now_ms))
        assert name not in self.image.topics

    def a_topic_gets_more_partitions(self) -> None:
        more = m.NewPartitions(self.rng.choice(NAMES), self.rng.randint(1, 6))
        request = m.CreatePartitions((more,))
        self.decide(topics.create_partitions(self.image, request, self.now_ms, self.rng))

    def a_topic_is_configured(self) -> None:
        unclean = self.rng.choice(["true", "false", None])
        needed = self.rng.choice(["1", "2", "3", None])
        changes = m.ResourceChanges(
            "topic",
            self.rng.choice(NAMES),
            (
                configured("unclean.leader.election.enable", unclean),
                configured("min.insync.replicas", needed),
            ),
        )
        request = m.AlterConfigs((changes,))
        self.decide(configs.alter_configs(self.image, request, self.now_ms, NodeConfig()))

    # --- partitions

    def a_leader_alters_its_isr(self) -> None:
        led = [
            (topic, index, state)
            for topic in self.image.topics.values()
            for index, state in enumerate(topic.partitions)
            if state.leader_id != NO_LEADER
        ]
        if not led:
            return
        topic, index, state = self.rng.choice(led)
        known = self.image.brokers
        leader = known[state.leader_id]
        others = [b for b in state.replicas if self.rng.random() < 0.6]
        isr = tuple(
            InSyncReplica(b, known[b].broker_epoch if b in known else -1)
            for b in dict.fromkeys([*others, *[state.leader_id][: self.rng.randint(0, 4)]])
        )
        behind = self.rng.choice([0, 0, 0, 0, 1, -1])
        alteration = PartitionAlteration(
            topic.topic_id, index, state.leader_epoch, state.partition_epoch - behind, isr
        )
        request = AlterPartition(leader.broker_id, leader.broker_epoch, (alteration,))
        decision = partitions.alter_partition(self.image, request, self.now_ms)
        (answer,) = self.decide(decision).partitions
        now = self.image.topics[topic.name].partitions[index]
        if answer.failure == m.DONE:
            assert not behind
            assert answer.isr == now.isr
            assert answer.leader_epoch == now.leader_epoch
            assert answer.partition_epoch == now.partition_epoch
        elif answer.failure.code == ErrorCode.NEW_LEADER_ELECTED:
            assert now.leader_id != state.leader_id
        else:
            assert now is state

    def partitions_move(self) -> None:
        if self.image.features[METADATA_VERSION] < 3:
            return
        targets: list[tuple[int, ...] | None] = [
            None,
            *(tuple(self.rng.sample([1, 2, 3, 4], n)) for n in (1, 2, 3)),
        ]
        request = AlterReassignments(
            {name: {n: self.rng.choice(targets) for n in range(2)} for name in NAMES}
        )
        self.decide(reassignments.alter_reassignments(self.image, request, self.now_ms))

    def leaders_are_balanced(self) -> None:
        self.commit(tuple(elections.balance_leaders(self.image, Reason("balance", self.now_ms))))

    def leaders_are_elected(self) -> None:
        request = ElectLeaders(self.rng.choice(list(Election)), None)
        self.decide(elections.elect_leaders(self.image, request, self.now_ms))

    # --- the rest

    def levels_change(self) -> None:
        level, upgrade = self.rng.randint(1, 3), self.rng.choice(list(Upgrade))
        request = UpdateFeatures((FeatureUpdate(METADATA_VERSION, level, upgrade),))
        try:
            self.decide(features.update_features(self.image, request, self.now_ms))
        except KafkaError:
            return
        assert self.image.features[METADATA_VERSION] == level

    def rules_users_and_quotas_come_and_go(self) -> None:
        if self.image.features[METADATA_VERSION] < 2:
            return
        number = self.rng.randint(0, 3)
        name, acl_id = f"user-{number}", bytes([number])
        entity = (r.QuotaEntityPart("user", name),)
        if acl_id in self.image.access_rules:
            self.commit(
                (
                    r.AclRemoved("c", 1, acl_id),
                    r.ScramCredentialRemoved("c", 1, name, 1),
                    r.ClientQuotaRemoved("c", 1, entity, "rate"),
                )
            )
        else:
            self.commit(
                (
                    r.AclAdded("c", 1, acl_id, 2, "t", 3, name, "*", 3, 3),
                    r.ScramCredentialSet("c", 1, name, 1, b"salt", b"stored", b"server", 4096),
                    r.ClientQuotaSet("c", 1, entity, "rate", 1.5),
                    r.ClientQuotaSet("c", 1, entity, "other", 2.5),
                    r.ClientQuotaRemoved("c", 1, entity, "other"),
                )
            )

    def a_controller_begins_anew_from_a_snapshot(self) -> None:
        self.restarted = MetadataMachine()
        self.restarted.load(self.controller.dump())

    # --- what must always be so

    def leaders_and_their_in_sync_replicas_serve(self) -> None:
        alive = self.image.live_broker_ids()
        for topic in self.image.topics.values():
            waiting = [s for s in topic.partitions if s.leader_id == NO_LEADER]
            assert topic.leaderless == len(waiting)
            for state in topic.partitions:
                assert set(state.isr) <= set(state.replicas)
                if state.leader_id == NO_LEADER:
                    able = filter(self.image.may_lead, (*state.isr, *state.elr))
                    assert not list(able), "somebody could lead"
                else:
                    assert state.leader_id in state.isr
                    assert alive.issuperset(state.isr)

    def names_agree(self) -> None:
        image = self.image
        assert {t.topic_id: t.name for t in image.topics.values()} == image.topic_names
        in_metrics = {metric_name(name): name for name in image.topics}
        assert {k: v for k, v in in_metrics.items() if k is not None} == image.metric_names
        assert {resource.name for resource in image.configs} <= set(image.topics)

    def everybody_agrees(self) -> None:
        assert self.follower == self.image
        assert self.restarted.image == self.image
        data = encode_image(self.image)
        assert decode_image(data) == self.image
        assert difference(decode_image(data), self.image).touched == Touched()


def configured(name: str, value: str | None) -> m.ConfigChange:
    operation = m.ConfigOperation.DELETE if value is None else m.ConfigOperation.SET
    return m.ConfigChange(name, operation, value)


def assert_complete(delta: MetadataDelta) -> None:
    """What a delta does not name is the same before and after."""
    different = difference(delta.before, delta.after).touched
    for field in fields(Touched):
        assert getattr(different, field.name) <= getattr(delta.touched, field.name)


def states(image: MetadataImage) -> dict[tuple[bytes, int], PartitionState]:
    return {
        (topic.topic_id, index): state
        for topic in image.topics.values()
        for index, state in enumerate(topic.partitions)
    }


def assert_epochs_grow(before: MetadataImage, after: MetadataImage) -> None:
    was = states(before)
    for key, state in states(after).items():
        old = was.get(key)
        if old is not None:
            assert state.partition_epoch - old.partition_epoch == (state is not old)
            gives_up = not set(old.replicas) <= set(state.replicas)
            changes_leader = state.leader_id != old.leader_id or gives_up
            assert state.leader_epoch - old.leader_epoch == changes_leader
    for broker_id, broker in after.brokers.items():
        if broker_id in before.brokers:
            assert broker.broker_epoch >= before.brokers[broker_id].broker_epoch
        else:
            assert broker.broker_epoch > before.version
    assert after.next_producer_id >= before.next_producer_id


OPERATIONS = {
    World.a_broker_registers: 6,
    World.a_broker_beats: 20,
    World.time_passes: 6,
    World.a_broker_leaves_for_good: 1,
    World.a_broker_takes_producer_ids: 2,
    World.topics_are_created: 6,
    World.a_topic_is_deleted: 2,
    World.a_topic_gets_more_partitions: 3,
    World.a_topic_is_configured: 3,
    World.a_leader_alters_its_isr: 20,
    World.leaders_are_elected: 3,
    World.leaders_are_balanced: 2,
    World.partitions_move: 4,
    World.a_broker_is_drained_or_not: 3,
    World.levels_change: 1,
    World.rules_users_and_quotas_come_and_go: 4,
    World.a_controller_begins_anew_from_a_snapshot: 4,
}


@pytest.mark.parametrize("seed", range(SEEDS))
def test_whatever_is_decided_the_facts_stay_consistent(seed: int) -> None:
    world = World(seed)
    steps = world.rng.choices(list(OPERATIONS), list(OPERATIONS.values()), k=STEPS)
    for step in steps:
        step(world)
        world.leaders_and_their_in_sync_replicas_serve()
        world.names_agree()
        world.everybody_agrees()
    assert world.index > STEPS / 5, "most steps decide something"
