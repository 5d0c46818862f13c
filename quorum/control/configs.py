"""Configurations of topics, brokers and groups: validated as a whole, changed all or nothing."""

from collections.abc import Collection, Mapping, Sequence
from typing import Final, TypeVar

from quorate.control import messages as m
from quorate.control.messages import ConfigOperation
from quorate.errors import (
    ErrorCode,
    InvalidConfigError,
    InvalidRequestError,
    KafkaError,
    UnknownTopicOrPartitionError,
)
from quorate.group_settings import GroupConfig, check_own_group_config
from quorate.quorum.control.decision import Decision, Reason, because, failure_of
from quorate.quorum.control.elections import on_topics_configured
from quorate.quorum.metadata import records as r
from quorate.quorum.metadata.applying import apply_records
from quorate.quorum.metadata.effective import SUCCESSION_RULES
from quorate.quorum.metadata.image import (
    BROKER,
    CLUSTER_DEFAULT,
    GROUP,
    TOPIC,
    ConfigResource,
    MetadataImage,
    TopicImage,
)
from quorate.quorum.metadata.topic_names import check_topic_name
from quorate.setting_fields import Kind, Setting
from quorate.setting_relations import NODE_RULES, check_rules
from quorate.setting_values import find_setting, standard_text, value_text
from quorate.settings import (
    BROKER_SETTINGS,
    GROUP_SETTINGS,
    TOPIC_SETTINGS,
    check_compaction_lags,
    checked_topic_overrides,
    node_values,
)

T = TypeVar("T")

VALUE_BYTES_MAX: Final = 32_767
"""As in Kafka: old versions of answers have no room for more."""

SAME_FOR_ALL: Final = SUCCESSION_RULES | {"num.partitions"}
"""What controllers go by: a single broker's would have no effect."""

_CONFIG_RECORDS: Final = (r.ConfigSet, r.ConfigDeleted)

_TABLES: Final[Mapping[str, Mapping[str, Setting]]] = {
    TOPIC: TOPIC_SETTINGS,
    BROKER: BROKER_SETTINGS,
    GROUP: GROUP_SETTINGS,
}


def checked_topic_configs(configs: Mapping[str, str]) -> dict[str, str]:
    """Return a topic's properties, written the standard way.

    Raises:
        InvalidConfigError: an unknown name or an invalid value.
    """
    return checked_topic_overrides(configs)


def alter_configs(
    image: MetadataImage, request: m.AlterConfigs, now_ms: int, groups: GroupConfig
) -> Decision[m.AlterConfigsAnswer]:
    """Change those resources of the request whose changes are valid.

    ``groups`` are the settings of this node, which bound those of single groups.
    """
    reason = because("AlterConfigs", request.principal, now_ms)
    twice = _repeated([(c.resource_type, c.resource_name) for c in request.resources])
    records: list[r.MetadataRecord] = []
    answers: list[m.ResourceAlteration] = []
    for changes in request.resources:
        failure = m.DONE
        try:
            if (changes.resource_type, changes.resource_name) in twice:
                raise InvalidRequestError(f"{changes.resource_name!r} is named twice")
            changed = _resource_records(image, changes, reason, groups)
        except KafkaError as error:
            failure = failure_of(error)
        else:
            records += () if request.validate_only else changed
        answers.append(m.ResourceAlteration(changes.resource_type, changes.resource_name, failure))
    records += _consequences(image, records, reason)
    return Decision(tuple(records), m.AlterConfigsAnswer(tuple(answers)))


def _consequences(
    image: MetadataImage, records: Sequence[r.MetadataRecord], reason: Reason
) -> list[r.PartitionChanged]:
    """Return what follows at once for partitions from new rules of who may lead them."""
    changed = {
        (record.resource_type, record.resource_name)
        for record in records
        if isinstance(record, _CONFIG_RECORDS) and record.name in SUCCESSION_RULES
    }
    if not changed:
        return []
    after = apply_records(image, image.version + 1, records)
    topics: Collection[TopicImage] = after.topics.values()
    if (BROKER, CLUSTER_DEFAULT) not in changed:
        topics = [after.topics[name] for kind, name in sorted(changed) if kind == TOPIC]
    return on_topics_configured(after, topics, reason)


def _resource_records(
    image: MetadataImage, changes: m.ResourceChanges, reason: Reason, groups: GroupConfig
) -> list[r.MetadataRecord]:
    """Return the records that make the resource's properties what they shall be."""
    _check_resource(image, changes)
    resource = ConfigResource(changes.resource_type, changes.resource_name)
    before = image.config(resource)
    after = dict[str, str]() if changes.replace else dict(before)
    for change in changes.changes:
        _check_expected(resource, change, before.get(change.name))
        _change(after, change, _TABLES[resource.type])
    kind, of = resource
    records: list[r.MetadataRecord] = []
    for name, value in sorted(after.items()):
        if value == before.get(name):
            continue
        after[name] = checked = _checked(resource, name, value)
        if checked != before.get(name):
            records.append(r.ConfigSet(reason.cause, reason.time_ms, kind, of, name, checked))
    _check_together(image, resource, after, groups)
    records += [
        r.ConfigDeleted(reason.cause, reason.time_ms, kind, of, name)
        for name in sorted(before)
        if name not in after
    ]
    return records


def _check_together(
    image: MetadataImage,
    resource: ConfigResource,
    properties: Mapping[str, str],
    groups: GroupConfig,
) -> None:
    """Check values of which each is valid; what stands in brokers' files is not known here."""
    if resource.type == TOPIC:
        check_compaction_lags(properties)
    elif resource.type == BROKER:
        shared = image.config(ConfigResource(BROKER, CLUSTER_DEFAULT))
        written = {**shared, **properties} if resource.name else properties
        known = {name: text for name, text in written.items() if name in BROKER_SETTINGS}
        check_rules(NODE_RULES, node_values(known))
    elif properties:
        check_own_group_config(groups, properties)


def _check_resource(image: MetadataImage, changes: m.ResourceChanges) -> None:
    name = changes.resource_name
    match changes.resource_type:
        case "topic":
            if not name:
                raise InvalidRequestError("a topic has a name: defaults are the brokers'")
            check_topic_name(name)
            if name not in image.topics:
                raise UnknownTopicOrPartitionError(f"there is no topic {name!r}")
        case "broker":
            if name != CLUSTER_DEFAULT and not (name.isascii() and name.isdecimal()):
                raise InvalidRequestError(f"{name!r} is not the id of a broker")
        case "group":
            if not name:
                raise InvalidRequestError("a group has a name: there are no defaults of all groups")
        case other:
            raise InvalidRequestError(f"resources of type {other!r} have no configuration")
    for repeated in _repeated([c.name for c in changes.changes]):
        raise InvalidRequestError(f"{repeated} is changed twice")


def _repeated(things: Sequence[T]) -> list[T]:
    """Return what is there more than once."""
    seen = set[T]()
    repeated: list[T] = []
    if len(things) < 2:  # nearly always
        return repeated
    for thing in things:
        if thing in seen:
            repeated.append(thing)
        seen.add(thing)
    return repeated


def _check_expected(resource: ConfigResource, change: m.ConfigChange, value: str | None) -> None:
    """Refuse a change that was meant for another value than there is."""
    if change.expected is None or change.expected.value == value:
        return
    expected = change.expected.value
    if expected is None or value is None or _checked(resource, change.name, expected) != value:
        raise KafkaError(
            f"{change.name} is {_shown(value)}, not {_shown(expected)}",
            code=ErrorCode.INVALID_UPDATE_VERSION,
        )


def _shown(value: str | None) -> str:
    return "not set" if value is None else repr(value)


def _change(
    properties: dict[str, str], change: m.ConfigChange, table: Mapping[str, Setting]
) -> None:
    """Carry out one change.

    What this version does not know (any more) can be deleted, whether or not it is there, as in
    Kafka: MirrorMaker 2 does so with all that has a default on the side that it copies from.
    """
    if change.operation is ConfigOperation.DELETE:
        properties.pop(change.name, None)
        return
    if change.value is None:
        raise InvalidRequestError(f"{change.name} needs a value")
    if change.operation is ConfigOperation.SET:
        properties[change.name] = change.value
        return
    setting = find_setting(table, change.name)
    if setting.kind is not Kind.LIST:
        raise InvalidConfigError(f"{change.name} is not a list: it has nothing to add to")
    before = _items(properties.get(change.name, value_text(setting.default)))
    given = _items(change.value)
    if change.operation is ConfigOperation.APPEND:
        after = before + [item for item in given if item not in before]
    else:
        after = [item for item in before if item not in given]
    properties[change.name] = ",".join(after)


def _items(text: str) -> list[str]:
    return [item.strip() for item in text.split(",") if item.strip()]


def _checked(resource: ConfigResource, name: str, value: str) -> str:
    """Return a value, written the standard way."""
    setting = find_setting(_TABLES[resource.type], name)
    if resource.type == BROKER and not setting.dynamic:
        raise InvalidConfigError(f"{name} cannot be changed while a broker runs")
    if resource.type == BROKER and resource.name and name in SAME_FOR_ALL:
        raise InvalidConfigError(f"{name} is the same for all brokers, or a topic's own")
    checked = standard_text(setting, value)
    if len(checked.encode()) > VALUE_BYTES_MAX:
        raise InvalidConfigError(f"{name} has more than {VALUE_BYTES_MAX} bytes")
    return checked
