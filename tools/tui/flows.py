"""What changes the cluster: asks, shows what would happen, and only then has it done."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, cast

from quorate.client.admin_results import ConfigEntry
from quorate.model import TopicPartition
from quorate.tools.clusters.chaos import ACTIONS
from quorate.tools.clusters.layout import BROKER, CONTROLLER
from quorate.tools.groups.resetting import plan_table
from quorate.tools.groups_work import Planned
from quorate.tools.output import render
from quorate.tools.tui import requests as ask
from quorate.tools.tui.dialogs import (
    ChoiceScreen,
    ConfirmScreen,
    EditScreen,
    Field,
    FormScreen,
    plain_lines,
)
from quorate.tools.tui.views import places
from quorate.tools.tui.views.cells import Line, Part, Tone
from quorate.tools.tui.views.frames import DEFAULT_RESOURCE
from quorate.tools.tui.views.settings import (
    EditError,
    diff_lines,
    differences,
    editable_text,
    own_values,
    parse_edited,
)

if TYPE_CHECKING:
    from quorate.tools.tui.app import QuorateApp
    from quorate.tools.tui.main_screen import ClusterScreen

EDIT_HINT = "# name=value, a line each; without its line: back to the default\n"


class Flows:
    """What is asked before something is done; keeps nothing but the program it belongs to."""

    def __init__(self, app: "QuorateApp") -> None:
        self._app = app

    @property
    def _main(self) -> "ClusterScreen":
        return self._app.main

    def _confirm(self, title: str, lines: list[Line], request: ask.Request, word: str = "") -> None:
        def answered(goes_ahead: bool | None) -> None:  # noqa: FBT001 - as Textual calls it
            if goes_ahead:
                self._app.do(request)

        _ = self._app.push_screen(ConfirmScreen(title, lines, word), answered)

    def _fill_in(
        self, title: str, fields: list[Field], then: Callable[[dict[str, str]], None]
    ) -> None:
        def filled(values: dict[str, str] | None) -> None:
            if values is not None:
                then(values)

        _ = self._app.push_screen(FormScreen(title, fields), filled)

    # Topics

    def create(self) -> None:
        """Create a topic."""
        fields = [
            Field("name", "name"),
            Field("partitions", "partitions (empty: the cluster's default)"),
            Field("replicas", "replicas of each (empty: the cluster's default)"),
            Field("configs", "settings (name=value name=value ...)"),
        ]
        self._fill_in("create a topic", fields, self._create)

    def _create(self, values: dict[str, str]) -> None:
        try:
            configs = parse_edited(values["configs"].replace(" ", "\n"))
            request = ask.CreateTopic(
                values["name"],
                int(values["partitions"]) if values["partitions"] else None,
                int(values["replicas"]) if values["replicas"] else None,
                configs,
            )
        except (EditError, ValueError) as error:
            self._app.complain(str(error))
            return
        self._app.do(request)

    def add_partitions(self) -> None:
        """Give a topic more partitions."""
        row = self._main.row
        if row is None:
            return
        subject = row.subject
        topic = subject.topic if isinstance(subject, TopicPartition) else str(subject)

        def then(values: dict[str, str]) -> None:
            if not values["count"].isdecimal():
                self._app.complain(f"{values['count']!r} is no number of partitions")
                return
            count = int(values["count"])
            lines = plain_lines(
                [
                    f"{topic} gets {count} partitions in total.",
                    "Records with keys go to other partitions from then on;",
                    "those already written stay where they are.",
                ]
            )
            self._confirm("add partitions", lines, ask.AddPartitions(topic, count), topic)

        self._fill_in(f"partitions of {topic}", [Field("count", "how many in total")], then)

    def delete(self) -> None:
        """Delete topics or groups."""
        names = tuple(str(row.subject) for row in self._main.chosen)
        if not names:
            return
        is_topic = self._main.place.view == places.TOPICS
        request = ask.DeleteTopics(names) if is_topic else ask.DeleteGroups(names)
        what = "topic" if is_topic else "group"
        lines: list[Line] = [(Part(f"  {name}", Tone.BAD),) for name in names]
        all_of_it = "all records" if is_topic else "all committed offsets"
        lines.insert(0, (Part(f"These are deleted with {all_of_it}, for good:"),))
        word = names[0] if len(names) == 1 else f"delete {len(names)} {what}s"
        self._confirm(f"delete {what}{'s' if len(names) > 1 else ''}", lines, request, word)

    # Partitions and brokers

    def elect(self) -> None:
        """Have preferred replicas lead."""
        snapshot, subjects = self._main.snapshot, [row.subject for row in self._main.chosen]
        partitions = [subject for subject in subjects if isinstance(subject, TopicPartition)]
        for subject in subjects:
            topic = snapshot.topic(subject) if snapshot and isinstance(subject, str) else None
            if topic is not None:
                partitions += [TopicPartition(topic.name, p.partition) for p in topic.partitions]
        if partitions:
            names = ", ".join(map(str, partitions[:6])) + (" ..." if len(partitions) > 6 else "")
            lines = plain_lines(
                [f"The first replica of each leads, if it is in sync: {names}.", "Nothing is lost."]
            )
            self._confirm("elect preferred leaders", lines, ask.Elect(tuple(partitions)))

    def drain(self) -> None:
        """Have a broker lead nothing, or let it lead again."""
        row, snapshot = self._main.row, self._main.snapshot
        if row is None or snapshot is None or not isinstance(row.subject, int):
            return
        broker = snapshot.broker(row.subject)
        if broker is None:
            return
        load = snapshot.loads.get(row.subject)
        if broker.is_draining:
            text = f"Broker {row.subject} may lead again; elections (L) bring its leaders back."
            request = ask.Drain(row.subject, draining=False)
            self._confirm("undrain", plain_lines([text]), request)
            return
        led = 0 if load is None else load.leaders
        text = (
            f"Broker {row.subject} leads {led} partitions; others take over what they can."
            " It stays in sync, and leads nothing until it is undrained."
        )
        request = ask.Drain(row.subject, draining=True)
        self._confirm("drain", plain_lines([text]), request, str(row.subject))

    def chaos(self) -> None:
        """Have a node suffer, or mend it: that of the row, or the leader of the partition."""
        row = self._main.row
        if row is None:
            return
        if not self._main.mode.chaos:
            self._app.notify("x works in clusters that quorate up made: their nodes are ours")
            return
        role = CONTROLLER if self._main.place.view == places.QUORUM else BROKER
        subject = row.subject
        if isinstance(subject, TopicPartition):
            subject = self._leader_of(subject)
        if subject is None:
            self._app.notify("nobody leads it")
            return
        node = f"{role}-{subject}"

        def chosen(action: str | None) -> None:
            if action is not None:
                lines = plain_lines([f"{node}: {ACTIONS[action].meaning}"])
                self._confirm(f"{action} {node}?", lines, ask.Chaos(action, node))

        options = [(each.key, name, each.meaning) for name, each in ACTIONS.items()]
        _ = self._app.push_screen(ChoiceScreen(f"chaos: {node}", options), chosen)

    def _leader_of(self, partition: TopicPartition) -> int | None:
        snapshot = self._main.snapshot
        topic = None if snapshot is None else snapshot.topic(partition.topic)
        told = () if topic is None else topic.partitions
        ids = (p.leader_id for p in told if p.partition == partition.partition)
        return next((leader for leader in ids if leader >= 0), None)

    # Settings

    def edit(self) -> None:
        """Edit the settings of what the row is about."""
        place, row = self._main.place, self._main.row
        if place.view == places.CONFIGS:
            resource = place.argument or DEFAULT_RESOURCE
        elif row is None:
            return
        else:
            resource = f"{'topic' if place.view == places.TOPICS else 'broker'}/{row.subject}"
        self._app.do(ask.ReadConfigs(resource))

    def edit_read(self, resource: str, entries: Mapping[str, ConfigEntry]) -> None:
        """Let somebody edit settings that were read."""
        before = own_values(resource, entries)
        text = EDIT_HINT + editable_text(before)
        row = self._main.row
        name = row.subject if row is not None and self._main.place.view == places.CONFIGS else None
        if isinstance(name, str) and name in entries and name not in before:
            text += f"# {name}={entries[name].value or ''}\n"

        def edited(after: str | None) -> None:
            if after is not None:
                self._show_diff(resource, before, after)

        _ = self._app.push_screen(EditScreen(f"settings of {resource}", text), edited)

    def _show_diff(self, resource: str, before: Mapping[str, str], text: str) -> None:
        try:
            found = differences(before, parse_edited(text))
        except EditError as error:
            self._app.complain(str(error))
            return
        if not found:
            self._app.notify("nothing is different")
            return
        request = ask.ChangeConfigs(resource, tuple(each.change for each in found))
        self._confirm(f"change {resource}?", diff_lines(found), request)

    # Groups

    def reset(self) -> None:
        """Reset the offsets of a group, in all that it reads or in some."""
        place, row = self._main.place, self._main.row
        if row is None:
            return
        scope = ""
        group_id = place.argument or str(row.subject)
        if place.view == places.OFFSETS:
            subjects = [cast("TopicPartition", row.subject) for row in self._main.chosen]
            scope = " ".join(f"{p.topic}:{p.partition}" for p in subjects)
        fields = [
            Field("target", "to: earliest, latest, 1200, +10, -10, @-1h, @2026-03-01T10:00"),
            Field("scope", "topics, as t or t:0,1 (empty: all that it reads)", scope),
        ]

        def then(values: dict[str, str]) -> None:
            words = tuple(values["scope"].split())
            self._app.do(ask.PlanReset(group_id, values["target"], words))

        self._fill_in(f"reset {group_id}", fields, then)

    def reset_planned(self, planned: Planned) -> None:
        """Show a plan, and have it done if its name is typed."""
        if not planned.effective:
            self._app.notify(f"{planned.group_id} is there already")
            return
        text = render(plan_table(planned.group_id, planned.changes), "table")
        lines = plain_lines([line.partition("  ")[2].strip() for line in text.splitlines()])
        if planned.members:
            several = planned.members > 1
            warning = f"It has {planned.members} member{'s' if several else ''}:"
            warning += f" {'they' if several else 'it'} must stop first, or this is refused."
            lines = [(Part(warning, Tone.WARN),), (Part(""),), *lines]
        self._confirm(f"reset {planned.group_id}", lines, ask.Reset(planned), planned.group_id)
