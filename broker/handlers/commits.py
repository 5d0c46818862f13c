"""What OffsetCommit and TxnOffsetCommit have in common: which partitions exist, what is refused."""

from collections.abc import Iterable, Sequence

from quorate.broker.groups.committing import OffsetAnswer, OffsetToCommit, TopicCommit
from quorate.errors import ErrorCode
from quorate.quorum.metadata.image import TopicImage


def existing(
    topic: TopicImage, partitions: Sequence[OffsetToCommit], answers: Sequence[OffsetAnswer]
) -> TopicCommit:
    """Return what is to be committed, without partitions that do not exist: those are refused."""
    count = len(topic.partitions)
    kept: list[OffsetToCommit] = []
    told: list[OffsetAnswer] = []
    for partition, answer in zip(partitions, answers, strict=True):
        if 0 <= partition.partition_index < count:
            kept.append(partition)
            told.append(answer)
        else:
            answer.error_code = int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    return TopicCommit(topic.name, kept, told)


def refuse(answers: Iterable[OffsetAnswer], code: ErrorCode) -> None:
    """Refuse these, for one reason."""
    for answer in answers:
        answer.error_code = int(code)


def refuse_commits(commits: Iterable[TopicCommit], code: ErrorCode) -> None:
    """Refuse what was not refused for a reason of its own."""
    for commit in commits:
        refuse((answer for answer in commit.answers if not answer.error_code), code)
