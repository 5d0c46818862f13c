"""Trio shell: what the Admin client asks and changes about groups and their offsets."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Final

from quorate.client import group_offsets
from quorate.client.admin_base import check, error_of
from quorate.client.admin_placement import PlacementAdmin
from quorate.client.connections import several
from quorate.client.coordinators import Coordinators
from quorate.client.errors import error_for
from quorate.client.groups.describing import (
    NOT_HERE,
    Refused,
    classic_groups_of,
    consumer_groups_of,
    leave_request,
    listings_of,
)
from quorate.client.groups.results import (
    GroupDescription,
    GroupListing,
    MemberDescription,
    OffsetAndMetadata,
    offsets_to_commit,
)
from quorate.client.offsets import list_offsets
from quorate.client.receiving.positions import LATEST_TIMESTAMP
from quorate.errors import ErrorCode, KafkaError, QuorateError, UnsupportedVersionError
from quorate.model import TopicPartition
from quorate.protocol.apis import ApiKey
from quorate.protocol.messages.consumer_groups import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)
from quorate.protocol.messages.groups import (
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    LeaveGroupResponse,
    ListGroupsRequest,
    ListGroupsResponse,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from quorate.client.admin_results import OffsetSpec

KICK_REASON: Final = "removed by an operator"


class GroupAdmin(PlacementAdmin):
    """The part of the Admin client that is about groups.

    A group is coordinated by one broker, which is found, and found again when it moves.
    """

    _coordinators: Coordinators | None = None

    async def list_groups(
        self, *, states: Iterable[str] = (), types: Iterable[str] = ()
    ) -> list[GroupListing]:
        """Return the groups of all brokers, by name; with filters, those that pass.

        Args:
            states: Kafka's names: ``Stable``, ``Empty`` and so on.
            types: ``classic`` or ``consumer``.

        Raises:
            KafkaError: A broker does not answer, or refuses.
        """
        request = ListGroupsRequest(
            states_filter=several("states", states), types_filter=several("types", types)
        )
        found: dict[str, GroupListing] = {}
        for broker in (await self.describe_cluster()).brokers:
            response: ListGroupsResponse = await self.connected().call_broker(
                broker.broker_id, ApiKey.LIST_GROUPS, request
            )
            check(response.error_code, None, f"groups of broker {broker.broker_id}")
            found |= {listing.group_id: listing for listing in listings_of(response)}
        return sorted(found.values(), key=lambda listing: listing.group_id)

    async def describe_groups(
        self, group_ids: Iterable[str]
    ) -> dict[str, GroupDescription | QuorateError]:
        """Return groups with their members, whichever protocol these speak.

        Raises:
            KafkaError: A coordinator does not answer.
        """
        wanted = list(dict.fromkeys(several("describe_groups", group_ids)))
        told: dict[str, GroupDescription | Refused] = dict.fromkeys(
            wanted, (ErrorCode.GROUP_ID_NOT_FOUND, None)
        )
        with suppress(UnsupportedVersionError):  # an old cluster: all of its groups are classic
            told |= await self._describe_consumer_groups(wanted)
        others = [
            group_id
            for group_id, answer in told.items()
            if isinstance(answer, tuple) and answer[0] in NOT_HERE
        ]
        told |= await self._describe_classic_groups(others)
        return {
            group_id: answer
            if isinstance(answer, GroupDescription)
            else _refusal(answer, f"group {group_id!r}")
            for group_id, answer in told.items()
        }

    async def _describe_consumer_groups(
        self, group_ids: Sequence[str]
    ) -> dict[str, GroupDescription | Refused]:
        def codes(response: ConsumerGroupDescribeResponse) -> list[int]:
            return [group.error_code for group in response.groups]

        coordinators = self.coordinators()
        responses: list[ConsumerGroupDescribeResponse] = await coordinators.call_many(
            group_ids,
            ApiKey.CONSUMER_GROUP_DESCRIBE,
            lambda ids: ConsumerGroupDescribeRequest(group_ids=ids),
            codes,
        )
        at = self._brokers_of(group_ids)
        return {k: v for each in responses for k, v in consumer_groups_of(each, at).items()}

    async def _describe_classic_groups(
        self, group_ids: Sequence[str]
    ) -> dict[str, GroupDescription | Refused]:
        def codes(response: DescribeGroupsResponse) -> list[int]:
            return [group.error_code for group in response.groups]

        responses: list[DescribeGroupsResponse] = await self.coordinators().call_many(
            group_ids,
            ApiKey.DESCRIBE_GROUPS,
            lambda ids: DescribeGroupsRequest(groups=ids, include_own_fields=True),
            codes,
        )
        at = self._brokers_of(group_ids)
        return {k: v for each in responses for k, v in classic_groups_of(each, at).items()}

    def _brokers_of(self, group_ids: Iterable[str]) -> dict[str, int]:
        known = self.coordinators().known
        return {group_id: -1 if (at := known(group_id)) is None else at for group_id in group_ids}

    async def delete_groups(self, group_ids: Iterable[str]) -> dict[str, QuorateError | None]:
        """Delete groups without members, and their offsets; returns an error or None for each.

        Raises:
            KafkaError: A coordinator does not answer.
        """

        def codes(response: DeleteGroupsResponse) -> list[int]:
            return [result.error_code for result in response.results]

        responses: list[DeleteGroupsResponse] = await self.coordinators().call_many(
            list(dict.fromkeys(several("delete_groups", group_ids))),
            ApiKey.DELETE_GROUPS,
            lambda ids: DeleteGroupsRequest(groups_names=ids),
            codes,
        )
        return {
            result.group_id: error_of(result.error_code, None, f"group {result.group_id!r}")
            for response in responses
            for result in response.results
        }

    async def remove_members(
        self,
        group_id: str,
        members: Iterable[MemberDescription],
        *,
        reason: str = KICK_REASON,
    ) -> dict[str, QuorateError | None]:
        """Take members out of a group; returns an error or None by instance id or member id.

        A client that is still alive joins again, unless it is told not to.

        Args:
            group_id: The group.
            members: As :meth:`describe_groups` tells of them.
            reason: What the coordinator notes (KIP-800).

        Raises:
            KafkaError: There is no such group, or its coordinator does not answer.
        """
        request = leave_request(group_id, members, reason)
        response: LeaveGroupResponse = await self.coordinators().call(
            group_id, ApiKey.LEAVE_GROUP, request, lambda told: (told.error_code,)
        )
        check(response.error_code, None, f"group {group_id!r}")
        return {
            (name := told.group_instance_id or told.member_id): error_of(
                told.error_code, None, f"member {name!r} of group {group_id!r}"
            )
            for told in response.members
        }

    # Offsets

    async def list_group_offsets(
        self,
        group_id: str,
        partitions: Collection[TopicPartition] | None = None,
        *,
        require_stable: bool = False,
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return how far a group has read: of some partitions, or of all that it has read.

        Partitions without an offset are left out; a group that does not exist has none.

        Raises:
            KafkaError: It cannot be found out; with ``require_stable``, also while a transaction
                has offsets that are pending (KIP-447).
        """
        wanted = None if partitions is None else several("list_group_offsets", partitions)
        return await group_offsets.fetch_offsets(
            self.coordinators(), group_id, wanted, require_stable=require_stable
        )

    async def alter_group_offsets(
        self, group_id: str, offsets: Mapping[TopicPartition, OffsetAndMetadata | int]
    ) -> dict[TopicPartition, QuorateError | None]:
        """Have a group go on elsewhere; returns an error or None for each partition.

        Only while it has no members. A group that does not exist comes to be.

        Raises:
            ValueError: What is given is no offset.
            KafkaError: The coordinator does not answer.
        """
        committed = offsets_to_commit(offsets)
        return await group_offsets.commit_offsets(self.coordinators(), group_id, committed)

    async def reset_group_offsets(
        self, group_id: str, to: Mapping[TopicPartition, OffsetSpec | int]
    ) -> dict[TopicPartition, OffsetAndMetadata | QuorateError]:
        """Have a group go on at an end of partitions, or at a time; returns where that is.

        Only while it has no members. Where no record is so late as a time, it is the end.

        Args:
            group_id: The group.
            to: :class:`OffsetSpec`, or a time in milliseconds since 1970, for each partition.

        Raises:
            KafkaError: The coordinator does not answer.
        """
        asked = {TopicPartition(*partition): int(spec) for partition, spec in to.items()}
        found = await self._offsets_or_ends(asked)
        wanted = {p: offset for p, offset in found.items() if isinstance(offset, OffsetAndMetadata)}
        results = await self.alter_group_offsets(group_id, wanted)
        return {**found, **{p: error for p, error in results.items() if error is not None}}

    async def _offsets_or_ends(
        self, asked: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, OffsetAndMetadata | QuorateError]:
        cluster = self.connected()
        found = await list_offsets(cluster, asked, committed_only=False)
        too_late = [
            p for p, at in found.items() if not isinstance(at, QuorateError) and at.offset < 0
        ]
        ends = dict.fromkeys(too_late, LATEST_TIMESTAMP)
        if ends:
            found |= await list_offsets(cluster, ends, committed_only=False)
        return {
            p: at if isinstance(at, QuorateError) else OffsetAndMetadata(at.offset)
            for p, at in found.items()
        }

    async def delete_group_offsets(
        self, group_id: str, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, QuorateError | None]:
        """Have a group forget how far it has read; returns an error or None for each partition.

        Topics that a member is subscribed to are refused.

        Raises:
            KafkaError: There is no such group, or its coordinator does not answer.
        """
        wanted = several("delete_group_offsets", partitions)
        return await group_offsets.delete_offsets(self.coordinators(), group_id, wanted)

    def coordinators(self) -> Coordinators:
        """Return who is known to coordinate what."""
        cluster = self.connected()
        if self._coordinators is None:
            self._coordinators = Coordinators(cluster)
        return self._coordinators


def _refusal(told: Refused, what: str) -> KafkaError:
    code, message = told
    return error_of(code, message, what) or error_for(ErrorCode.UNKNOWN_SERVER_ERROR, what)
