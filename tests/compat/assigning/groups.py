"""Groups to be assigned partitions, for Kafka's assignors and for ours."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from quorate.client.membership.assigning.model import Candidate
from quorate.client.membership.assigning.user_data import PreviousAssignment
from quorate.client.membership.assignors import ASSIGNORS
from quorate.model import TopicPartition
from quorate.protocol.consumer_protocol import NO_GENERATION, Subscription, encode_subscription

if TYPE_CHECKING:
    from random import Random

TOPICS = ("app", "app-logs", "audit", "orders", "z")
RACKS: tuple[str, ...] = ("a", "b", "c")


@dataclass(frozen=True, slots=True)
class Member:
    """One member, and what it says of itself."""

    id: str
    topics: tuple[str, ...]
    instance: str | None = None
    rack: str | None = None
    owned: tuple[TopicPartition, ...] = ()
    generation: int = NO_GENERATION

    def candidate(self, assignor: str) -> Candidate:
        """Return the member as that assignor sees it."""
        previous = PreviousAssignment(self.owned, self.generation)
        eager = not ASSIGNORS[assignor].is_cooperative
        return Candidate(
            self.id,
            Subscription(
                topics=self.topics,
                owned=() if eager else self.owned,
                generation_id=self.generation,
                rack_id=self.rack,
                user_data=ASSIGNORS[assignor].user_data(previous),
            ),
            self.instance,
        )


@dataclass(frozen=True, slots=True)
class Group:
    """A group before an assignment: for each partition of its topics, the racks of replicas."""

    assignor: str
    topics: dict[str, tuple[tuple[str, ...], ...]]
    members: tuple[Member, ...]

    def assign(self) -> dict[str, list[str]]:
        """Return what our assignor gives to whom."""
        wanted = {topic for member in self.members for topic in member.topics}
        assignment = ASSIGNORS[self.assignor].assign(
            {
                topic: tuple(frozenset(racks) for racks in partitions)
                for topic, partitions in self.topics.items()
                if topic in wanted and partitions
            },
            [member.candidate(self.assignor) for member in self.members],
        )
        return {
            member_id: [str(partition) for partition in sorted(assignment[member_id])]
            for member_id in sorted(assignment)
        }

    def question(self) -> str:
        """Return the group as Assign.java reads it."""
        members = [
            {
                "id": candidate.member_id,
                "instance": candidate.group_instance_id,
                "metadata": base64.b64encode(encode_subscription(candidate.subscription)).decode(),
            }
            for candidate in (member.candidate(self.assignor) for member in self.members)
        ]
        asked = {"assignor": self.assignor, "topics": self.topics, "members": members}
        return json.dumps(asked)

    def as_json(self) -> dict[str, Any]:
        """Return the group as golden tables have it."""
        members = [
            {
                "id": member.id,
                "topics": member.topics,
                "instance": member.instance,
                "rack": member.rack,
                "owned": [list(partition) for partition in member.owned],
                "generation": member.generation,
            }
            for member in self.members
        ]
        return {"assignor": self.assignor, "topics": self.topics, "members": members}

    @staticmethod
    def from_json(told: dict[str, Any]) -> Group:
        """Return a group of a golden table."""
        members = tuple(
            Member(
                id=member["id"],
                topics=tuple(member["topics"]),
                instance=member["instance"],
                rack=member["rack"],
                owned=tuple(TopicPartition(*partition) for partition in member["owned"]),
                generation=member["generation"],
            )
            for member in told["members"]
        )
        topics = {
            topic: tuple(tuple(racks) for racks in partitions)
            for topic, partitions in told["topics"].items()
        }
        return Group(told["assignor"], topics, members)


def random_group(assignor: str, rng: Random) -> Group:
    """Return a group as it may be in the middle of its life: members came, went, changed."""
    racks = rng.random() < 0.4
    topics: dict[str, tuple[tuple[str, ...], ...]] = {
        topic: tuple(
            tuple(sorted(rng.sample(RACKS, rng.randint(0, 3)))) if racks else ()
            for _ in range(rng.choice((1, 2, 3, 6, 7, 16, 40)))
        )
        for topic in rng.sample(TOPICS, rng.randint(1, len(TOPICS)))
    }
    alike = rng.random() < 0.5
    wanted = tuple(rng.sample(TOPICS, rng.randint(1, 3)))
    member_count = rng.randint(1, 9)
    owner_count = rng.choice((2, 3, member_count, member_count + 2))
    owners = {
        TopicPartition(topic, number): rng.randrange(owner_count)
        for topic, partitions in topics.items()
        for number in range(len(partitions))
    }
    generation, late = rng.randint(0, 5), rng.random() < 0.5
    members: list[Member] = []
    for number in range(member_count):
        its_topics = wanted if alike else tuple(rng.sample(TOPICS, rng.randint(1, 4)))
        owned = [p for p, owner in owners.items() if owner == number and p.topic in its_topics]
        if rng.random() < 0.2:  # a zombie, or a bug
            owned += [p for p in owners if p.topic in its_topics and rng.random() < 0.1]
        is_new = rng.random() < 0.3
        members.append(
            Member(
                id=f"consumer-{rng.randrange(10**9)}-{number}",
                topics=its_topics,
                instance=f"i{number}" if rng.random() < 0.2 else None,
                rack=rng.choice(RACKS) if racks and rng.random() < 0.8 else None,
                owned=() if is_new else tuple(dict.fromkeys(owned)),
                generation=NO_GENERATION
                if is_new
                else generation - (late and generation > 0 and rng.random() < 0.3),
            )
        )
    return Group(assignor, topics, tuple(members))
