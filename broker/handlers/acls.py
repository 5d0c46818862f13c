"""Access rules: there are none, and who asks is told so as by Kafka without an authorizer.

Programs look for SECURITY_DISABLED, and do without rules then: MirrorMaker 2, operators, consoles.
That the API is not there is an error to them.
"""

from typing import Final

from quorate.broker.handlers.context import Broker, Caller
from quorate.errors import ErrorCode
from quorate.protocol.messages.acls import (
    AclCreationResult,
    CreateAclsRequest,
    CreateAclsResponse,
    DeleteAclsFilterResult,
    DeleteAclsRequest,
    DeleteAclsResponse,
    DescribeAclsRequest,
    DescribeAclsResponse,
)

_CODE: Final = int(ErrorCode.SECURITY_DISABLED)
_TOLD_BY_BROKERS: Final = "No Authorizer is configured on the broker"
_TOLD_BY_CONTROLLERS: Final = "No Authorizer is configured."
"""To whom Kafka's brokers forward what changes rules."""


def describe_acls(
    _broker: Broker, _request: DescribeAclsRequest, _caller: Caller
) -> DescribeAclsResponse:
    """Say that nobody looks at rules."""
    return DescribeAclsResponse(error_code=_CODE, error_message=_TOLD_BY_BROKERS)


def create_acls(_broker: Broker, request: CreateAclsRequest, _caller: Caller) -> CreateAclsResponse:
    """Refuse each rule."""
    refused = AclCreationResult(error_code=_CODE, error_message=_TOLD_BY_CONTROLLERS)
    return CreateAclsResponse(results=[refused] * len(request.creations))


def delete_acls(_broker: Broker, request: DeleteAclsRequest, _caller: Caller) -> DeleteAclsResponse:
    """Refuse each filter."""
    refused = DeleteAclsFilterResult(error_code=_CODE, error_message=_TOLD_BY_CONTROLLERS)
    return DeleteAclsResponse(filter_results=[refused] * len(request.filters))
