"""Groups of the new protocol (KIP-848): ConsumerGroupHeartbeat, ConsumerGroupDescribe."""

from functools import partial
from typing import Final

from quorate.broker.groups import consumer_heartbeats
from quorate.broker.groups.group import InvalidGroupIdError
from quorate.broker.handlers.context import Broker, Caller
from quorate.broker.handlers.features import check_consumer_protocol
from quorate.broker.handlers.gathering import Gathering
from quorate.broker.handlers.operations import ON_GROUPS
from quorate.errors import ErrorCode, KafkaError
from quorate.promise import Promise, now_or_later
from quorate.protocol.messages.consumer_groups import (
    ConsumerGroupDescribeGroup,
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)

PROTOCOL: Final = "consumer"


def consumer_group_heartbeat(
    broker: Broker, request: ConsumerGroupHeartbeatRequest, caller: Caller
) -> ConsumerGroupHeartbeatResponse | Promise[ConsumerGroupHeartbeatResponse]:
    """Let a member join, go on, or leave, and tell it what to read if that has changed."""
    beating = consumer_heartbeats.Caller(caller.client_id, caller.client_host, caller.api_version)
    try:
        _check_served(broker)
        coordinator = broker.coordinators.of(request.group_id)
        return now_or_later(coordinator.consumer.beat(request, beating))
    except KafkaError as error:
        return ConsumerGroupHeartbeatResponse(
            error_code=int(error.code), error_message=error.message
        )


def consumer_group_describe(
    broker: Broker, request: ConsumerGroupDescribeRequest, _caller: Caller
) -> ConsumerGroupDescribeResponse | Promise[ConsumerGroupDescribeResponse]:
    """Describe consumer groups and their members."""
    group_ids = list(dict.fromkeys(request.group_ids))  # each once, however often it is named
    answers = Gathering[ConsumerGroupDescribeGroup](len(group_ids))
    for place, group_id in enumerate(group_ids):
        try:
            _check_served(broker)
            if not group_id:
                raise InvalidGroupIdError
            described = broker.coordinators.of(group_id).consumer.describe(group_id)
        except KafkaError as error:
            refused = ConsumerGroupDescribeGroup(
                error_code=int(error.code), error_message=error.message, group_id=group_id
            )
            answers.put(place, refused)
        else:
            described.when_resolved(partial(_put, request, answers, place))
    return answers.response(lambda groups: ConsumerGroupDescribeResponse(groups=groups))


def _put(
    request: ConsumerGroupDescribeRequest,
    answers: Gathering[ConsumerGroupDescribeGroup],
    place: int,
    described: ConsumerGroupDescribeGroup,
) -> None:
    """Take a group's description, with what may be done with it if that was asked for."""
    if request.include_authorized_operations and described.error_code == ErrorCode.NONE:
        described.authorized_operations = ON_GROUPS
    answers.put(place, described)


def _check_served(broker: Broker) -> None:
    """Refuse what ``group.coordinator.rebalance.protocols`` or a feature has switched off."""
    check_consumer_protocol(broker.replicas.image)
    if PROTOCOL not in broker.config.group_coordinator_rebalance_protocols:
        raise KafkaError(code=ErrorCode.UNSUPPORTED_VERSION)
