"""Trio shell: does what the screen asks for, and says in a line what came of it."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

import trio

from quorate.client.admin import raise_first
from quorate.client.admin_results import ConfigEntry, NewTopic
from quorate.client.transactions.describing import TransactionDescription
from quorate.errors import ErrorCode, KafkaError, QuorateError
from quorate.model import TopicPartition
from quorate.tools import brokers_work, chaos_work, groups_work, why_work
from quorate.tools.arguments import GlobalOptions
from quorate.tools.configs import entries_of, parse_resource
from quorate.tools.groups.resetting import To, parse_spec
from quorate.tools.metadata.timeline import Timeline, timeline_of
from quorate.tools.problems import UsageError
from quorate.tools.quorum_work import wall_clock_ms
from quorate.tools.tui import requests as ask
from quorate.tools.tui.asked import Asked
from quorate.tools.tui.palette import line_of
from quorate.tools.tui.requests import Answer
from quorate.tools.tui.views import describing, places
from quorate.tools.tui.views.cells import Line, Part
from quorate.tools.tui.views.snapshot import Snapshot

HARMLESS: Final = frozenset({ErrorCode.ELECTION_NOT_NEEDED})


class Actor:
    """Does one thing at a time for each request; keeps nothing."""

    def __init__(self, asked: Asked) -> None:
        self._asked = asked
        self._options = asked.options
        self._client = asked.client
        self._cluster = asked.cluster

    async def do(self, request: ask.Request, snapshot: Snapshot) -> Answer:
        """Do what is asked for.

        Raises:
            QuorateError: it was refused, or nobody answers.
        """
        match request:
            case ask.ReadTimeline():
                return Answer(request, value=await self._timeline(snapshot))
            case ask.Report():
                lines = await trio.to_thread.run_sync(
                    report_lines, self._options, request, abandon_on_cancel=True
                )
                return Answer(request, lines=lines)
            case ask.Describe() | ask.Why() | ask.ReadConfigs() | ask.PlanReset():
                return await self._read(request, snapshot)
            case ask.Elect():
                said = await self._elect(request.partitions)
            case ask.Drain():
                said = await self._drain(request)
            case ask.Chaos():
                assert self._cluster is not None, "else there is no such menu"
                said = await chaos_work.act(self._cluster, request.action, request.node)
            case ask.Reset():
                await groups_work.carry_out(self._client, request.planned)
                changed = len(request.planned.effective)
                said = f"{request.planned.group_id} goes on elsewhere in {changed} partitions"
            case _:
                said = await self._change(request)
        return Answer(request, said=said)

    async def _whom_to_ask(self, snapshot: Snapshot) -> why_work.Asked:
        directory = self._asked.directory_of(snapshot.cluster_id)
        return await why_work.whom_to_ask(self._options, os.environ, directory)

    async def _timeline(self, snapshot: Snapshot) -> Timeline:
        asked = await self._whom_to_ask(snapshot)
        return timeline_of(await why_work.read_batches(asked))

    async def _read(
        self,
        request: ask.Describe | ask.Why | ask.ReadConfigs | ask.PlanReset,
        snapshot: Snapshot,
    ) -> Answer:
        match request:
            case ask.Why():
                return Answer(request, lines=await self._why(request, snapshot))
            case ask.ReadConfigs():
                found = await entries_of(self._client, parse_resource(request.resource))
                return Answer(request, value=found)
            case ask.PlanReset():
                spec = parse_spec(reset_target(request.target), request.group_id, wall_clock_ms())
                planned = await groups_work.plan_reset(
                    self._client, request.group_id, spec, request.scope
                )
                return Answer(request, value=planned)
            case ask.Describe():
                entries = await self._entries_about(request)
                told = await self._told_of(request, snapshot)
                lines = describing.lines_of(request.place, request.subject, told, entries)
                return Answer(request, lines=describing.described_lines(lines))

    async def _entries_about(self, request: ask.Describe) -> Mapping[str, ConfigEntry]:
        """Return the settings of what is described, if it has any."""
        kinds = {places.TOPICS: "topic", places.BROKERS: "broker"}
        kind = kinds.get(request.place.view)
        if kind is None:
            return {}
        try:
            return await entries_of(self._client, parse_resource(f"{kind}/{request.subject}"))
        except QuorateError:
            return {}  # a broker that is out of service does not tell

    async def _told_of(self, request: ask.Describe, snapshot: Snapshot) -> Snapshot:
        """Return what was seen, and more of the transactional id that is described, if one is."""
        if request.place.view != places.TXNS:
            return snapshot
        name = str(request.subject)
        async with self._client.admin() as admin:
            told = (await admin.describe_transactions([name])).get(name)
        found = {name: told} if isinstance(told, TransactionDescription) else {}
        return replace(snapshot, now_ms=wall_clock_ms(), transactions_told=found)

    async def _change(self, request: ask.Request) -> str:
        async with self._client.admin() as admin:
            match request:
                case ask.CreateTopic():
                    topic = NewTopic(
                        request.name, request.partitions, request.replicas, request.configs
                    )
                    raise_first(await admin.create_topics([topic]))
                    return f"created topic {request.name}"
                case ask.AddPartitions():
                    raise_first(await admin.create_partitions({request.topic: request.count}))
                    return f"{request.topic} has {request.count} partitions"
                case ask.DeleteTopics():
                    raise_first(await admin.delete_topics(request.names))
                    return f"deleted {_names('topic', request.names)}"
                case ask.DeleteGroups():
                    raise_first(await admin.delete_groups(request.names))
                    return f"deleted {_names('group', request.names)}"
                case ask.ChangeConfigs():
                    resource = parse_resource(request.resource)
                    raise_first(await admin.alter_configs({resource: request.changes}))
                    return f"changed {len(request.changes)} settings of {request.resource}"
                case _:
                    raise AssertionError(f"{request} changes nothing")

    async def _elect(self, partitions: Sequence[TopicPartition]) -> str:
        async with self._client.admin() as admin:
            results = await admin.elect_leaders(partitions)
        needless = [p for p, e in results.items() if _is_harmless(e)]
        raise_first({p: None if _is_harmless(e) else e for p, e in results.items()})
        elected = len(results) - len(needless)
        if not elected:
            return "the preferred replicas lead already"
        return f"preferred replicas lead {elected} partition{'s' if elected > 1 else ''} now"

    async def _drain(self, request: ask.Drain) -> str:
        if not request.draining:
            await brokers_work.undrain(self._options, request.broker_id)
            return f"broker {request.broker_id} may lead again"
        led = await brokers_work.drain(self._options, self._client, request.broker_id)
        left = f", but {len(led.alone)} that nobody else can" if led.alone else ""
        return f"broker {request.broker_id} leads nothing now{left}"

    async def _why(self, request: ask.Why, snapshot: Snapshot) -> tuple[Line, ...]:
        asked = await self._whom_to_ask(snapshot)
        subject = request.subject
        match request.place.view:
            case places.PARTITIONS if isinstance(subject, TopicPartition):
                decided = await why_work.read_decided(asked)
                lines = describing.why_partition_lines(decided, subject, snapshot)
                if not snapshot.waits_for_followers(subject):
                    return lines
                stuck = await why_work.ask_about_stuck(asked, subject)
                return (*lines, (Part(""),), *describing.answers_lines([stuck]))
            case places.TXNS:
                refused = await why_work.ask_about_producer(asked, str(subject))
                return describing.answers_lines([refused])
            case places.GROUPS:
                told = [
                    await why_work.ask_about_rebalance(asked, str(subject)),
                    await why_work.ask_about_lag(asked, str(subject)),
                ]
                return describing.answers_lines(told)
            case places.OFFSETS if isinstance(subject, TopicPartition):
                group_id = request.place.argument
                lag = await why_work.ask_about_lag(asked, group_id, [subject.topic])
                return describing.answers_lines([lag])
            case places.BROKERS if isinstance(subject, int):
                return describing.why_broker_lines(await why_work.read_decided(asked), subject)
            case _:
                raise UsageError(
                    f"nobody can say why a row of {request.place.view} is as it is",
                    why="there are answers for partitions, topics, groups, offsets, brokers, txns",
                    hint=":events shows every decision, with its cause",
                )


def report_lines(options: GlobalOptions, request: ask.Report) -> tuple[Line, ...]:
    """Judge a run, as ``quorate verify report`` does, and return its lines.

    Raises:
        CommandError: it has no history, or one that cannot be read.
    """
    # So heavy an import waits until somebody wants it.
    from quorate.jepsen.report.terminal import lines
    from quorate.tools.verify_judging import find_source, reported

    source = find_source(None, str(request.run.folder.path))
    report = reported(replace(options, quiet=True), source)
    return tuple(line_of(text) for text in lines(report, request.width))


def _is_harmless(error: QuorateError | None) -> bool:
    return isinstance(error, KafkaError) and error.code in HARMLESS


def _names(what: str, names: Sequence[str]) -> str:
    return f"{what} {names[0]}" if len(names) == 1 else f"{len(names)} {what}s"


def reset_target(text: str) -> dict[To, str]:
    """Return what is meant by a target typed in: a word, an offset, a shift, a time.

    Raises:
        UsageError: nothing is.
    """
    text = text.strip()
    if text in ("earliest", "start", "beginning"):
        return {To.EARLIEST: ""}
    if text in ("latest", "end"):
        return {To.LATEST: ""}
    if text.startswith("@"):
        return {To.DATETIME: text[1:]}
    if text[:1] in ("+", "-") and text[1:].isdecimal():
        return {To.SHIFT: text}
    if text.isdecimal():
        return {To.OFFSET: text}
    raise UsageError(
        f"{text!r} is nothing to go to", why="it is neither a word, an offset, a shift nor a time",
        hint="earliest, latest, 1200, +10, -10, @2026-03-01T10:00, @-1h",
    )  # fmt: skip
