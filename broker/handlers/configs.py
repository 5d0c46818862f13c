"""Configurations described and changed: read from the image, changed by the controller."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import IntEnum
from typing import Final

from quorate.broker.handlers.context import ANONYMOUS, Broker, Caller
from quorate.control.messages import (
    AlterConfigs,
    AlterConfigsAnswer,
    ConfigChange,
    ConfigOperation,
    ResourceChanges,
)
from quorate.errors import (
    ErrorCode,
    InvalidRequestError,
    KafkaError,
    UnknownTopicOrPartitionError,
)
from quorate.promise import Promise
from quorate.protocol.messages.configs import (
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResource,
    IncrementalAlterConfigsResponse,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
    ListedConfigResource,
)
from quorate.quorum.metadata.effective import SUCCESSION_RULES
from quorate.quorum.metadata.image import BROKER, CLUSTER_DEFAULT, GROUP, TOPIC, ConfigResource
from quorate.quorum.metadata.topic_names import check_topic_name
from quorate.setting_fields import Setting
from quorate.setting_values import parse_value, value_text
from quorate.settings import BROKER_SETTINGS, GROUP_SETTINGS, TOPIC_SETTINGS

TOPIC_TYPE: Final = 2
BROKER_TYPE: Final = 4
LOGGER_TYPE: Final = 8
CLIENT_METRICS_TYPE: Final = 16
GROUP_TYPE: Final = 32
RESOURCE_NAMES: Final = {TOPIC_TYPE: TOPIC, BROKER_TYPE: BROKER, GROUP_TYPE: GROUP}

TYPES_TO_LIST_FROM: Final = 1
"""The version of ListConfigResources that tells types; before, it lists client metrics only."""


PASSWORD: Final = 9
"""The type of what is not told."""

ALL: Final = frozenset[str]()
"""The names of all properties, among those that are wanted."""


class Source(IntEnum):
    """Where a value comes from; the numbers are Kafka's."""

    TOPIC = 1
    BROKER = 2
    CLUSTER = 3
    NODE_FILE = 4
    DEFAULT = 5
    GROUP = 8


Layer = tuple[Source, str, str | None]
"""Where a value may stand, the name that the property has there, and the value if there is one."""


def describe_configs(
    broker: Broker, request: DescribeConfigsRequest, _caller: Caller
) -> DescribeConfigsResponse:
    """Describe topics, brokers and groups: properties, where they come from, what they mean."""
    descriptions = Descriptions(
        broker, synonyms=request.include_synonyms, documentation=request.include_documentation
    )
    results: list[DescribeConfigsResult] = []
    for resource in _distinct(request.resources):
        result = DescribeConfigsResult(
            resource_type=resource.resource_type, resource_name=resource.resource_name
        )
        try:
            result.configs = _describe_one(broker, resource, descriptions)
        except KafkaError as error:
            result.error_code, result.error_message = int(error.code), error.message
        results.append(result)
    return DescribeConfigsResponse(results=results)


def _distinct(resources: Iterable[DescribeConfigsResource]) -> Iterable[DescribeConfigsResource]:
    """Return each question once: a large answer to a small one must not be asked for often."""
    questions = {
        (x.resource_type, x.resource_name, tuple(x.configuration_keys or ())): x for x in resources
    }
    return questions.values()


def _describe_one(
    broker: Broker, resource: DescribeConfigsResource, descriptions: "Descriptions"
) -> list[DescribeConfigsResourceResult]:
    name, image = resource.resource_name, broker.replicas.image
    wanted = frozenset(resource.configuration_keys or ALL)  # none named: all, as in Kafka
    if resource.resource_type == TOPIC_TYPE:
        check_topic_name(name)
        if name not in image.topics:
            raise UnknownTopicOrPartitionError(f"there is no topic {name!r}")
        return descriptions.of_topic(image.config(ConfigResource(TOPIC, name)), wanted)
    if resource.resource_type == BROKER_TYPE:
        if name not in (CLUSTER_DEFAULT, str(broker.config.node_id)):
            raise InvalidRequestError(f"this is broker {broker.config.node_id}, not {name!r}")
        return descriptions.of_broker(wanted, shared_only=name == CLUSTER_DEFAULT)
    if resource.resource_type == GROUP_TYPE:  # it need not exist (yet)
        if not name:
            raise InvalidRequestError("a group has a name: there are no defaults of all groups")
        return descriptions.of_group(image.config(ConfigResource(GROUP, name)), wanted)
    raise InvalidRequestError(f"resource type {resource.resource_type} is not supported here")


class Descriptions:
    """Describes properties, for one request: what nodes say is looked up once for all resources.

    So are the properties of topics and of groups that say nothing themselves, which are most. Those
    results are shared, and must not be changed.
    """

    def __init__(self, broker: Broker, *, synonyms: bool, documentation: bool) -> None:
        image = broker.replicas.image
        self._written = broker.node_texts
        self._own = image.config(ConfigResource(BROKER, str(broker.config.node_id)))
        self._shared = image.config(ConfigResource(BROKER, CLUSTER_DEFAULT))
        self._synonyms = synonyms
        self._documentation = documentation
        self._silent: dict[tuple[Source, frozenset[str]], list[DescribeConfigsResourceResult]] = {}

    def of_topic(
        self, own: Mapping[str, str], wanted: frozenset[str]
    ) -> list[DescribeConfigsResourceResult]:
        """Return the properties of a topic with these settings of its own."""
        return self._of_one(Source.TOPIC, TOPIC_SETTINGS, own, wanted)

    def of_group(
        self, own: Mapping[str, str], wanted: frozenset[str]
    ) -> list[DescribeConfigsResourceResult]:
        """Return the properties of a group with these settings of its own."""
        return self._of_one(Source.GROUP, GROUP_SETTINGS, own, wanted)

    def of_broker(
        self, wanted: frozenset[str], *, shared_only: bool
    ) -> list[DescribeConfigsResourceResult]:
        """Return the properties of this broker, or only what was set for all brokers."""
        entries: list[DescribeConfigsResourceResult] = []
        for setting in _wanted(BROKER_SETTINGS, wanted):
            layers = self._node_layers(setting.name)
            if shared_only:
                layers = [layer for layer in layers if layer[0] == Source.CLUSTER]
                if not any(value is not None for _, _, value in layers):
                    continue
            entries.append(self._entry(setting, layers, read_only=not setting.dynamic))
        return entries

    def _of_one(
        self,
        source: Source,
        settings: Mapping[str, Setting],
        own: Mapping[str, str],
        wanted: frozenset[str],
    ) -> list[DescribeConfigsResourceResult]:
        entries = None if own else self._silent.get((source, wanted))
        if entries is None:
            entries = [
                self._entry(
                    setting,
                    [
                        (source, setting.name, own.get(setting.name)),
                        *self._node_layers(setting.broker_name),
                    ],
                    read_only=False,
                )
                for setting in _wanted(settings, wanted)
            ]
            if not own:
                self._silent[source, wanted] = entries
        return entries

    def _node_layers(self, name: str) -> list[Layer]:
        """Return the values of a node's property by where they stand, the most special first."""
        # What controllers and brokers must agree on is the cluster's, whatever this node's file
        # says.
        written = None if name in SUCCESSION_RULES else self._written.get(name)
        if written is not None:
            # People may write 7d; programs that read this expect a number.
            written = value_text(parse_value(BROKER_SETTINGS[name], written))
        return [
            (Source.BROKER, name, self._own.get(name)),
            (Source.CLUSTER, name, self._shared.get(name)),
            (Source.NODE_FILE, name, written),
        ]

    def _entry(
        self, setting: Setting, layers: Sequence[Layer], *, read_only: bool
    ) -> DescribeConfigsResourceResult:
        default = (Source.DEFAULT, setting.broker_name or setting.name, value_text(setting.default))
        found = [(s, n, v) for s, n, v in [*layers, default] if v is not None]
        source, _, value = found[0]
        secret = "password" in setting.name
        told = [] if secret or not self._synonyms else found
        return DescribeConfigsResourceResult(
            name=setting.name,
            value=None if secret else value,
            read_only=read_only,
            config_source=int(source),
            is_sensitive=secret,
            synonyms=[DescribeConfigsSynonym(name=n, value=v, source=int(s)) for s, n, v in told],
            config_type=PASSWORD if secret else setting.kind.value,
            documentation=setting.meaning if self._documentation else None,
        )


def _wanted(settings: Mapping[str, Setting], names: frozenset[str]) -> Iterable[Setting]:
    """Return the settings that are named; all if none is."""
    if not names:
        return settings.values()
    return [setting for setting in settings.values() if setting.name in names]


def list_config_resources(
    broker: Broker, request: ListConfigResourcesRequest, caller: Caller
) -> ListConfigResourcesResponse:
    """List what has settings: topics, brokers, groups with some of their own (KIP-1142)."""
    image = broker.replicas.image
    brokers = [str(broker_id) for broker_id in image.brokers]
    names = {
        TOPIC_TYPE: list(image.topics),
        BROKER_TYPE: brokers,
        LOGGER_TYPE: [],
        CLIENT_METRICS_TYPE: [],
        GROUP_TYPE: [c.name for c, own in image.configs.items() if c.type == GROUP and own],
    }
    wanted = request.resource_types or list(names)
    if caller.api_version < TYPES_TO_LIST_FROM:
        wanted = [CLIENT_METRICS_TYPE]
    if not names.keys() >= set(wanted):
        return ListConfigResourcesResponse(error_code=int(ErrorCode.UNSUPPORTED_VERSION))
    return ListConfigResourcesResponse(
        config_resources=[
            ListedConfigResource(resource_name=name, resource_type=kind)
            for kind in dict.fromkeys(wanted)
            for name in names[kind]
        ]
    )


def alter_configs(
    broker: Broker, request: AlterConfigsRequest, _caller: Caller
) -> Promise[AlterConfigsResponse]:
    """Replace all that was set for each resource."""
    promise: Promise[AlterConfigsResponse] = Promise()
    changes = [
        [ConfigChange(c.name, ConfigOperation.SET, c.value) for c in resource.configs]
        for resource in request.resources
    ]
    _alter(
        broker,
        _Alteration(request.resources, changes, replace=True, validate_only=request.validate_only),
        lambda responses: promise.resolve(AlterConfigsResponse(responses=responses)),
    )
    return promise


def incremental_alter_configs(
    broker: Broker, request: IncrementalAlterConfigsRequest, _caller: Caller
) -> Promise[IncrementalAlterConfigsResponse]:
    """Change properties one by one, leaving the others (KIP-339)."""
    promise: Promise[IncrementalAlterConfigsResponse] = Promise()
    changes = [
        [_change(c.name, c.config_operation, c.value) for c in resource.configs]
        for resource in request.resources
    ]
    _alter(
        broker,
        _Alteration(request.resources, changes, replace=False, validate_only=request.validate_only),
        lambda responses: promise.resolve(IncrementalAlterConfigsResponse(responses=responses)),
    )
    return promise


def _change(name: str, operation: int, value: str | None) -> ConfigChange | None:
    """Return the change, or None for an operation that does not exist."""
    try:
        return ConfigChange(name, ConfigOperation(operation), value)
    except ValueError:
        return None


class _Alteration:
    """Changes as they came, per resource."""

    def __init__(
        self,
        resources: Sequence[AlterConfigsResource] | Sequence[IncrementalAlterConfigsResource],
        changes: Sequence[Sequence[ConfigChange | None]],
        *,
        replace: bool,
        validate_only: bool,
    ) -> None:
        self.keys = [(r.resource_type, r.resource_name) for r in resources]
        self.changes = changes
        self.replace = replace
        self.validate_only = validate_only


def _alter(
    broker: Broker,
    alteration: _Alteration,
    resolve: Callable[[list[AlterConfigsResourceResponse]], None],
) -> None:
    """Have the controller change what can be changed, and answer each resource in its place."""
    failures = {
        key: failure
        for key, changes in zip(alteration.keys, alteration.changes, strict=True)
        if (failure := _refusal(key, changes)) is not None
    }

    def answer(outcomes: Mapping[tuple[int, str], tuple[int, str]]) -> None:
        responses: list[AlterConfigsResourceResponse] = []
        for key in alteration.keys:
            code, message = outcomes.get(key) or failures[key]
            responses.append(
                AlterConfigsResourceResponse(
                    error_code=code,
                    error_message=message or None,
                    resource_type=key[0],
                    resource_name=key[1],
                )
            )
        resolve(responses)

    wanted = [
        (key, tuple(c for c in changes if c is not None))
        for key, changes in zip(alteration.keys, alteration.changes, strict=True)
        if key not in failures
    ]
    if not wanted:
        answer({})
        return

    def answered(done: AlterConfigsAnswer) -> None:
        keys = (key for key, _ in wanted)
        pairs = zip(keys, done.resources, strict=True)
        answer({key: (one.failure.code, one.failure.message) for key, one in pairs})

    def failed(code: ErrorCode, message: str) -> None:
        answer({key: (int(code), message) for key, _ in wanted})

    resources = tuple(
        ResourceChanges(RESOURCE_NAMES[key[0]], key[1], changes, alteration.replace)
        for key, changes in wanted
    )
    broker.ask(AlterConfigs(resources, alteration.validate_only, ANONYMOUS), answered, failed)


def _refusal(
    key: tuple[int, str], changes: Sequence[ConfigChange | None]
) -> tuple[int, str] | None:
    if key[0] not in RESOURCE_NAMES:
        return int(ErrorCode.INVALID_REQUEST), f"resource type {key[0]} is not supported here"
    if None in changes:
        message = "unknown operation; there are SET, DELETE, APPEND, SUBTRACT"
        return int(ErrorCode.INVALID_REQUEST), message
    return None
