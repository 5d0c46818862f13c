"""What the screen asks the gatherer to do, and what comes of it: values."""

from collections.abc import Mapping
from dataclasses import field

from quorate.client.admin_results import ConfigChange, ConfigEntry
from quorate.dataclass import dataclass
from quorate.model import TopicPartition
from quorate.tools.groups_work import Planned
from quorate.tools.metadata.timeline import Timeline
from quorate.tools.problems import Problem
from quorate.tools.tui.views.cells import Line
from quorate.tools.tui.views.places import Place
from quorate.tools.verify_runs import Run


@dataclass(frozen=True, slots=True)
class CreateTopic:
    """Create a topic; None leaves a number to the cluster."""

    name: str
    partitions: int | None
    replicas: int | None
    configs: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True)
class AddPartitions:
    """Give a topic so many partitions in total."""

    topic: str
    count: int


@dataclass(frozen=True, slots=True)
class DeleteTopics:
    """Delete topics with all their records."""

    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class DeleteGroups:
    """Delete consumer groups with their offsets."""

    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ReadConfigs:
    """Read the settings of a resource, to edit them."""

    resource: str


@dataclass(frozen=True, slots=True)
class ChangeConfigs:
    """Change settings of a resource."""

    resource: str
    changes: tuple[ConfigChange, ...]


@dataclass(frozen=True, slots=True)
class Elect:
    """Have preferred replicas lead."""

    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class Drain:
    """Have a broker lead nothing, or let it lead again."""

    broker_id: int
    draining: bool


@dataclass(frozen=True, slots=True)
class PlanReset:
    """Work out where a group would go on; ``scope`` are texts such as ``t`` and ``t:0,1``."""

    group_id: str
    target: str
    scope: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Reset:
    """Set the offsets of a group as planned."""

    planned: Planned


@dataclass(frozen=True, slots=True)
class Describe:
    """Tell all that is known of what a row is about."""

    place: Place
    subject: object


@dataclass(frozen=True, slots=True)
class Why:
    """Tell why it is as it is, with the records that it comes from."""

    place: Place
    subject: object


@dataclass(frozen=True, slots=True)
class ReadTimeline:
    """Read all decisions that are left, to walk through them; ``goal`` is where to begin.

    It is a moment as ``quorate metadata at`` takes it; empty for the newest.
    """

    goal: str = ""


@dataclass(frozen=True, slots=True)
class Report:
    """Judge a run, and tell all about it in lines of at most a width."""

    run: Run
    width: int


@dataclass(frozen=True, slots=True)
class Chaos:
    """Have a node of a cluster of ``quorate up`` suffer, or mend it."""

    action: str
    node: str


Request = (
    CreateTopic
    | AddPartitions
    | DeleteTopics
    | DeleteGroups
    | ReadConfigs
    | ChangeConfigs
    | Elect
    | Drain
    | PlanReset
    | Reset
    | Describe
    | Why
    | ReadTimeline
    | Report
    | Chaos
)
READING = (ReadConfigs, PlanReset, Describe, Why, ReadTimeline, Report)
"""What changes nothing."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What came of a request: one of the first three, or what went wrong."""

    request: Request
    said: str = ""
    lines: tuple[Line, ...] = ()
    value: Planned | Mapping[str, ConfigEntry] | Timeline | None = None
    problem: Problem | None = None
