"""Topics of our own: made when they are needed first."""

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from quorate.control.messages import CreateTopics, CreateTopicsAnswer, NewTopic
from quorate.errors import ErrorCode, known_code
from quorate.settings import NodeConfig

if TYPE_CHECKING:
    from quorate.broker.handlers.context import Broker

logger = logging.getLogger(__name__)

PRINCIPAL = "a broker that needs its internal topic"


class InternalTopic:
    """One internal topic, and who waits for it to be made.

    State: who waits; why it could not be made the last time, which is logged once.
    """

    __slots__ = ("_complaint", "_topic", "_waiting")

    def __init__(self, topic: NewTopic) -> None:
        self._topic = topic
        self._waiting: list[Callable[[str], None]] = []
        self._complaint = ""

    def make(self, broker: "Broker", then: Callable[[str], None]) -> None:
        """Have the controller make the topic; call back with nothing, or with why it was not."""
        self._waiting.append(then)
        if len(self._waiting) > 1:
            return
        logger.info("creating the internal topic %s", self._topic.name)
        broker.ask(CreateTopics((self._topic,), principal=PRINCIPAL), self._made, self._failed)

    def _made(self, answer: CreateTopicsAnswer) -> None:
        (topic,) = answer.topics
        self._failed(known_code(topic.failure.code), topic.failure.message)

    def _failed(self, code: ErrorCode, message: str) -> None:
        there = code in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS)
        complaint = "" if there else f"cannot create {self._topic.name}: {message or code.name}"
        if complaint and complaint != self._complaint:
            logger.warning("%s", complaint)
        self._complaint = complaint
        waiting, self._waiting = self._waiting, []
        for each in waiting:
            each(complaint)


def groups_topic(name: str, config: NodeConfig) -> InternalTopic:
    """Return the topic in which groups are kept, as the settings say it is to be made."""
    configs = {
        "cleanup.policy": "compact",
        "compression.type": "producer",
        "segment.bytes": str(config.offsets_topic_segment_bytes),
    }
    return InternalTopic(
        NewTopic(
            name,
            config.offsets_topic_num_partitions,
            config.offsets_topic_replication_factor,
            configs=configs,
        )
    )


def transactions_topic(name: str, config: NodeConfig) -> InternalTopic:
    """Return the topic in which transactions are kept, as the settings say it is to be made."""
    replicas = config.transaction_state_log_replication_factor
    configs = {
        "cleanup.policy": "compact",
        "compression.type": "uncompressed",
        "min.insync.replicas": str(min(config.transaction_state_log_min_isr, replicas)),
        "segment.bytes": str(config.transaction_state_log_segment_bytes),
        "unclean.leader.election.enable": "false",
    }
    return InternalTopic(
        NewTopic(name, config.transaction_state_log_num_partitions, replicas, configs=configs)
    )
