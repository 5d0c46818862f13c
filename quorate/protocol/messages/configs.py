"""Settings of topics, brokers and groups: listed, described and altered."""

from quorate.protocol.fields import array, boolean, int8, int16, int32, string
from quorate.protocol.message import message, nested


@nested
class DescribeConfigsResource:
    """A topic or broker, and the settings asked for; null means all of them."""

    resource_type: int = int8()
    resource_name: str = string()
    configuration_keys: list[str] | None = array("string", nullable="0+")


@message(versions="1-4", flexible="4+")
class DescribeConfigsRequest:
    """Asks for settings."""

    resources: list[DescribeConfigsResource] = array(DescribeConfigsResource)
    include_synonyms: bool = boolean("1+")
    include_documentation: bool = boolean("3+")


@nested
class DescribeConfigsSynonym:
    """A value that applies if no closer one is set, and where it comes from."""

    name: str = string()
    value: str | None = string(nullable="0+")
    source: int = int8()


@nested
class DescribeConfigsResourceResult:
    """One setting."""

    name: str = string()
    value: str | None = string(nullable="0+")
    read_only: bool = boolean()
    config_source: int = int8("1+", default=-1)
    is_sensitive: bool = boolean()
    synonyms: list[DescribeConfigsSynonym] = array(DescribeConfigsSynonym, "1+")
    config_type: int = int8("3+")
    documentation: str | None = string("3+", nullable="3+")


@nested
class DescribeConfigsResult:
    """The settings of one resource."""

    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
    resource_type: int = int8()
    resource_name: str = string()
    configs: list[DescribeConfigsResourceResult] = array(DescribeConfigsResourceResult)


@message(versions="1-4", flexible="4+")
class DescribeConfigsResponse:
    """Answers a DescribeConfigsRequest."""

    throttle_time_ms: int = int32()
    results: list[DescribeConfigsResult] = array(DescribeConfigsResult)


@nested
class AlterableConfig:
    """The new value of one setting."""

    name: str = string()
    value: str | None = string(nullable="0+")


@nested
class AlterConfigsResource:
    """All settings that one resource is to have from now on."""

    resource_type: int = int8()
    resource_name: str = string()
    configs: list[AlterableConfig] = array(AlterableConfig)


@message(versions="0-2", flexible="2+")
class AlterConfigsRequest:
    """Replaces all settings of resources; what is not named goes back to its default."""

    resources: list[AlterConfigsResource] = array(AlterConfigsResource)
    validate_only: bool = boolean()


@nested
class AlterConfigsResourceResponse:
    """What became of one resource."""

    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
    resource_type: int = int8()
    resource_name: str = string()


@message(versions="0-2", flexible="2+")
class AlterConfigsResponse:
    """Answers an AlterConfigsRequest."""

    throttle_time_ms: int = int32()
    responses: list[AlterConfigsResourceResponse] = array(AlterConfigsResourceResponse)


@nested
class IncrementalAlterableConfig:
    """A change of one setting; the operation is 0 set, 1 delete, 2 append or 3 subtract."""

    name: str = string()
    config_operation: int = int8()
    value: str | None = string(nullable="0+")


@nested
class IncrementalAlterConfigsResource:
    """The changes to one resource."""

    resource_type: int = int8()
    resource_name: str = string()
    configs: list[IncrementalAlterableConfig] = array(IncrementalAlterableConfig)


@message(versions="0-1", flexible="1+")
class IncrementalAlterConfigsRequest:
    """Changes settings and leaves the others alone (KIP-339)."""

    resources: list[IncrementalAlterConfigsResource] = array(IncrementalAlterConfigsResource)
    validate_only: bool = boolean()


@message(versions="0-1", flexible="1+")
class IncrementalAlterConfigsResponse:
    """Answers an IncrementalAlterConfigsRequest."""

    throttle_time_ms: int = int32()
    responses: list[AlterConfigsResourceResponse] = array(AlterConfigsResourceResponse)


@message(versions="0-1", flexible="0+")
class ListConfigResourcesRequest:
    """Asks what has settings, of some types or, if none is named, of all (KIP-1142)."""

    resource_types: list[int] = array("int8", "1+")


@nested
class ListedConfigResource:
    """Something that has settings."""

    resource_name: str = string()
    resource_type: int = int8("1+", default=16)


@message(versions="0-1", flexible="0+")
class ListConfigResourcesResponse:
    """Answers a ListConfigResourcesRequest."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    config_resources: list[ListedConfigResource] = array(ListedConfigResource)
