"""Access rules: asked for, made and deleted (KIP-140); patterns of names are KIP-290."""

from typing import Final

from quorate.protocol.fields import array, int8, int16, int32, string
from quorate.protocol.message import message, nested

LITERAL: Final = 3
"""The type of a pattern that stands for nothing but itself."""


@message(versions="1-3", flexible="2+")
class DescribeAclsRequest:
    """Asks for the rules that match a filter; null matches any."""

    resource_type_filter: int = int8()
    resource_name_filter: str | None = string(nullable="0+")
    pattern_type_filter: int = int8("1+", default=LITERAL)
    principal_filter: str | None = string(nullable="0+")
    host_filter: str | None = string(nullable="0+")
    operation: int = int8()
    permission_type: int = int8()


@nested
class AclDescription:
    """A rule of a resource."""

    principal: str = string()
    host: str = string()
    operation: int = int8()
    permission_type: int = int8()


@nested
class DescribeAclsResource:
    """A resource, or a pattern of names, and its rules."""

    resource_type: int = int8()
    resource_name: str = string()
    pattern_type: int = int8("1+", default=LITERAL)
    acls: list[AclDescription] = array(AclDescription)


@message(versions="1-3", flexible="2+")
class DescribeAclsResponse:
    """Answers a DescribeAclsRequest."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
    resources: list[DescribeAclsResource] = array(DescribeAclsResource)


@nested
class AclCreation:
    """A rule to make."""

    resource_type: int = int8()
    resource_name: str = string()
    resource_pattern_type: int = int8("1+", default=LITERAL)
    principal: str = string()
    host: str = string()
    operation: int = int8()
    permission_type: int = int8()


@message(versions="1-3", flexible="2+")
class CreateAclsRequest:
    """Makes rules."""

    creations: list[AclCreation] = array(AclCreation)


@nested
class AclCreationResult:
    """What became of a rule."""

    error_code: int = int16()
    error_message: str | None = string(nullable="0+")


@message(versions="1-3", flexible="2+")
class CreateAclsResponse:
    """Answers a CreateAclsRequest, in its order."""

    throttle_time_ms: int = int32()
    results: list[AclCreationResult] = array(AclCreationResult)


@nested
class DeleteAclsFilter:
    """Which rules are to go; null matches any."""

    resource_type_filter: int = int8()
    resource_name_filter: str | None = string(nullable="0+")
    pattern_type_filter: int = int8("1+", default=LITERAL)
    principal_filter: str | None = string(nullable="0+")
    host_filter: str | None = string(nullable="0+")
    operation: int = int8()
    permission_type: int = int8()


@message(versions="1-3", flexible="2+")
class DeleteAclsRequest:
    """Deletes the rules that match one of the filters."""

    filters: list[DeleteAclsFilter] = array(DeleteAclsFilter)


@nested
class DeleteAclsMatchingAcl:
    """A rule that matched, and what became of it."""

    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
    resource_type: int = int8()
    resource_name: str = string()
    pattern_type: int = int8("1+", default=LITERAL)
    principal: str = string()
    host: str = string()
    operation: int = int8()
    permission_type: int = int8()


@nested
class DeleteAclsFilterResult:
    """What a filter has matched."""

    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
    matching_acls: list[DeleteAclsMatchingAcl] = array(DeleteAclsMatchingAcl)


@message(versions="1-3", flexible="2+")
class DeleteAclsResponse:
    """Answers a DeleteAclsRequest, in its order."""

    throttle_time_ms: int = int32()
    filter_results: list[DeleteAclsFilterResult] = array(DeleteAclsFilterResult)
