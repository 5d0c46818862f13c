"""ListGroups, DescribeGroups, DeleteGroups: for all kinds of groups."""

from collections.abc import Callable
from functools import partial
from typing import Final, cast

from quorate.broker.groups.coordinator import GroupCoordinator
from quorate.broker.groups.group import DescribedClassic, Group
from quorate.broker.handlers.context import Broker, Caller
from quorate.broker.handlers.gathering import Gathering
from quorate.broker.handlers.operations import ON_GROUPS
from quorate.errors import ErrorCode, KafkaError
from quorate.promise import Promise
from quorate.protocol.messages.groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    DescribedGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    ListedGroup,
    ListGroupsRequest,
    ListGroupsResponse,
)

NOT_FOUND_FROM: Final = 6
"""The version of DescribeGroups that may say that there is no such group; before, it is "Dead"."""

DEAD: Final = "Dead"
EMPTY: Final = "Empty"


def list_groups(broker: Broker, request: ListGroupsRequest, _caller: Caller) -> ListGroupsResponse:
    """List the groups that this broker coordinates."""
    states = {state.lower() for state in request.states_filter}
    types = {kind.lower() for kind in request.types_filter}
    response = ListGroupsResponse()
    if broker.coordinators.is_loading:
        # Others ask all brokers, and would not miss what is not there yet.
        response.error_code = int(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        return response
    for coordinator in broker.coordinators:
        response.groups += (
            ListedGroup(
                group_id=group.group_id,
                protocol_type=group.protocol_type,
                group_state=group.state_name,
                group_type=group.group_type,
            )
            for group in coordinator.listings()
            if (not states or group.state_name.lower() in states)
            and (not types or group.group_type.lower() in types)
        )
    return response


def describe_groups(
    broker: Broker, request: DescribeGroupsRequest, caller: Caller
) -> DescribeGroupsResponse | Promise[DescribeGroupsResponse]:
    """Describe classic groups and their members.

    What only we tell is for who asks for it: not every client can skip it.
    """
    group_ids = list(dict.fromkeys(request.groups))  # each once, however often it is named
    answers = Gathering[DescribedGroup](len(group_ids))
    for place, group_id in enumerate(group_ids):
        try:
            coordinator = broker.coordinators.of(group_id)
            described = _describe(coordinator, group_id, caller)
        except KafkaError as error:
            answers.put(place, _not_described(group_id, error.code, error.message))
            continue
        if request.include_authorized_operations and described.error_code == ErrorCode.NONE:
            described.authorized_operations = ON_GROUPS
        if not request.include_own_fields:
            described.generation_id = described.state_since_ms = -1
            described.leader = described.rebalance_reason = ""
        _when_committed(coordinator, described, partial(answers.put, place))
    return answers.response(lambda groups: DescribeGroupsResponse(groups=groups))


def _when_committed(
    coordinator: GroupCoordinator,
    described: DescribedGroup,
    then: Callable[[DescribedGroup], None],
) -> None:
    """Tell what is in the state when it cannot be lost any more."""

    def committed(code: ErrorCode) -> None:
        failed = code != ErrorCode.NONE
        then(_not_described(described.group_id, code, None) if failed else described)

    coordinator.context.writer.when_committed(described.group_id, committed)


def _describe(coordinator: GroupCoordinator, group_id: str, caller: Caller) -> DescribedGroup:
    group = coordinator.context.groups.get(group_id)
    if group is None and group_id in coordinator.keeper.offsets:
        return DescribedGroup(group_id=group_id, group_state=EMPTY)
    if group is None:
        return _missing(group_id, f"Group {group_id} not found.", caller)
    if group.group_type != "classic":
        return _missing(group_id, f"Group {group_id} is not a classic group.", caller)
    return _classic(group).describe()


def _classic(group: Group) -> DescribedClassic:
    return cast("DescribedClassic", group)


def _missing(group_id: str, message: str, caller: Caller) -> DescribedGroup:
    if caller.api_version < NOT_FOUND_FROM:
        return DescribedGroup(group_id=group_id, group_state=DEAD)
    described = _not_described(group_id, ErrorCode.GROUP_ID_NOT_FOUND, message)
    described.group_state = DEAD
    return described


def _not_described(group_id: str, code: ErrorCode, message: str | None) -> DescribedGroup:
    return DescribedGroup(group_id=group_id, error_code=int(code), error_message=message)


def delete_groups(
    broker: Broker, request: DeleteGroupsRequest, _caller: Caller
) -> DeleteGroupsResponse | Promise[DeleteGroupsResponse]:
    """Delete groups without members, and what they have read."""
    group_ids = list(dict.fromkeys(request.groups_names))  # each once, however often it is named
    answers = Gathering[DeletableGroupResult](len(group_ids))
    for place, group_id in enumerate(group_ids):

        def done(code: ErrorCode, place: int = place, group_id: str = group_id) -> None:
            answers.put(place, DeletableGroupResult(group_id=group_id, error_code=int(code)))

        try:
            broker.coordinators.of(group_id).keeper.delete_group(group_id, done)
        except KafkaError as error:
            done(error.code)
    return answers.response(lambda results: DeleteGroupsResponse(results=results))
