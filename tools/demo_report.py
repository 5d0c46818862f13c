"""The demo's report: as tables for people, or as JSON."""

import json
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from quorate.model import TopicPartition
from quorate.tools.demo import DemoReport, Passage
from quorate.tools.demo_failover import Failover
from quorate.tools.demo_ledger import Tally
from quorate.tools.output import SCHEMA_VERSION, bytes_text
from quorate.tools.partitions.comparing import SAME

HASH_DIGITS = 8


def print_report(report: DemoReport, console: Console) -> None:
    """Print what was sent and read back, and whether it is the same."""
    console.print(_sources_line(report))
    console.print(_failover_line(report.failover))
    console.print(_partitions_table(report))
    console.print(_rates_table(report))
    console.print(_recovery_line(report))
    verdict = (
        "every acknowledged record is there once, as it was sent, in order; nothing is left running"
        if report.ok
        else f"WRONG: {mistakes(report)}"
    )
    console.print(Text(verdict, style="bold green" if report.ok else "bold red"))


def _sources_line(report: DemoReport) -> str:
    names = ", ".join(str(source.path) for source in report.sources[:6])
    more = f" and {len(report.sources) - 6} more" if len(report.sources) > 6 else ""
    return (
        f"Three brokers and three controllers were ready {report.start_s:.1f} s after their start."
        f" They got {report.rounds} times the lines of {names}{more}, and a broker's own log as it"
        f" grew; each record on three brokers (acks=all)."
    )


def _failover_line(failover: Failover) -> Text:
    text = Text.from_markup(
        f"Half-way, after {failover.sent_before:,} records, broker {failover.broker_id} was killed"
        f" (-9), which led {failover.led} partitions, {failover.partition} among them."
    )
    text.append(f" The next record there was acknowledged {failover.seconds:.2f} s later.", "bold")
    return text


def _recovery_line(report: DemoReport) -> Text:
    recovery = report.recovery
    same = f" The three replicas of all {len(recovery.compared)} partitions hold the same bytes."
    text = Text(
        f"Broker {report.failover.broker_id} was started again; {recovery.seconds:.1f} s later all"
        f" replicas were in sync."
    )
    if recovery.ok:
        text.append(same, "green")
    return text


def _partitions_table(report: DemoReport) -> Table:
    table = Table(
        title="Sent, and read back three ways (= is the same count, order and SHA-256)",
        title_justify="left",
        box=box.SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
    )
    table.add_column("partition", no_wrap=True)
    for heading in ("records", "bytes"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("SHA-256", no_wrap=True)
    for passage in report.passages:
        table.add_column(passage.name, justify="right", no_wrap=True)
    for partition, tally in report.ledger.whole.items():
        marks = [_mark(passage, partition) for passage in report.passages]
        shown = tally.sha256[:HASH_DIGITS] if tally.records else "-"
        size = bytes_text(tally.size_bytes)
        table.add_row(str(partition), f"{tally.records:,}", size, shown, *marks)
    return table


def _mark(passage: Passage, partition: TopicPartition) -> Text:
    expected, found = passage.expected[partition], passage.found[partition]
    if expected.matches(found):
        return Text(f"= {found.records:,}", style="green")
    return Text(f"WRONG {found.records:,}/{expected.records:,}", style="red")


def _rates_table(report: DemoReport) -> Table:
    table = Table(
        title="Rates (one client process; a broker was killed while it sent)",
        title_justify="left",
        box=box.SIMPLE_HEAD,
    )
    table.add_column("what")
    for heading in ("records", "seconds", "records/s", "MB/s"):
        table.add_column(heading, justify="right")
    table.add_row("sent, all acknowledged", *_rates(report.ledger.whole, report.send_seconds))
    for passage in report.passages:
        table.add_row(f"read {passage.name}", *_rates(passage.found, passage.seconds))
    return table


def _rates(tallies: dict[TopicPartition, Tally], seconds: float) -> list[str]:
    records = sum(tally.records for tally in tallies.values())
    size_bytes = sum(tally.size_bytes for tally in tallies.values())
    per_s = 1 / max(seconds, 1e-9)
    megabytes = size_bytes * per_s / 1e6
    return [f"{records:,}", f"{seconds:.2f}", f"{records * per_s:,.0f}", f"{megabytes:.1f}"]


def mistakes(report: DemoReport) -> str:
    """Return what was wrong, in one line."""
    told = [f"{p.name}: {', '.join(map(str, p.wrong))}" for p in report.passages if p.wrong]
    wrong = [each for each in report.recovery.compared if each.verdict != SAME]
    told += [f"replicas of {each.partition}: {each.text()}" for each in wrong]
    if not report.recovery.compared:
        told.append("no replicas could be compared")
    if report.ledger.gaps:
        told.append(f"{report.ledger.gaps} acknowledged offsets were not the next one")
    return "; ".join(told)


def report_json(report: DemoReport) -> str:
    """Return the report for programs."""
    document: dict[str, Any] = {
        "kind": "demo",
        "version": SCHEMA_VERSION,
        "ok": report.ok,
        "start_seconds": report.start_s,
        "send_seconds": round(report.send_seconds, 3),
        "failover": {
            "broker": report.failover.broker_id,
            "partition": str(report.failover.partition),
            "led": report.failover.led,
            "sent_before": report.failover.sent_before,
            "seconds": round(report.failover.seconds, 3),
        },
        "recovery": {
            "seconds": round(report.recovery.seconds, 3),
            "replicas_same": report.recovery.ok,
        },
        "sources": [str(source.path) for source in report.sources],
        "partitions": [
            {
                "topic": partition.topic,
                "partition": partition.partition,
                "records": tally.records,
                "size_bytes": tally.size_bytes,
                "sha256": tally.sha256,
                "same": {p.name: p.expected[partition].matches(p.found[partition])
                         for p in report.passages},
            }
            for partition, tally in report.ledger.whole.items()
        ],
        "passages": [
            {"name": p.name, "seconds": round(p.seconds, 3)} for p in report.passages
        ],
    }  # fmt: skip
    return json.dumps(document, indent=2) + "\n"
