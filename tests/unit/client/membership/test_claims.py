"""What members say that they have, where they contradict each other."""

import pytest

from quorate.client.membership.assigning.claims import Claim, settle
from quorate.client.membership.assigning.model import Candidate
from quorate.model import TopicPartition
from quorate.protocol.consumer_protocol import Subscription

T0, GONE = TopicPartition("t", 0), TopicPartition("t", 1)
TOPICS = {"t": (frozenset[str](),)}


def claim(member_id: str, generation_id: int, *partitions: TopicPartition) -> Claim:
    candidate = Candidate(member_id, Subscription(("t",)), None)
    return Claim(candidate, partitions, generation_id)


@pytest.mark.parametrize(
    ("of_a", "of_b", "owners"),
    [(5, 4, {"a": [T0], "b": []}), (4, 5, {"a": [], "b": [T0]}), (4, 4, {"a": [], "b": []})],
)
def test_of_two_that_have_the_same_the_one_of_the_later_generation_is_believed(
    of_a: int, of_b: int, owners: dict[str, list[TopicPartition]]
) -> None:
    owned = settle(TOPICS, [claim("a", of_a, T0, GONE), claim("b", of_b, T0)])
    assert owned.by_member == owners
    assert owned.contested == ({T0} if of_a == of_b else set())
