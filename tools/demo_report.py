"""The demo's report: as tables for people, or as JSON."""

import json
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from quorate.model import TopicPartition
from quorate.tools.demo import DemoReport, Passage
from quorate.tools.demo_ledger import Tally
from quorate.tools.output import SCHEMA_VERSION, bytes_text

HASH_DIGITS = 8


def print_report(report: DemoReport, console: Console) -> None:
    """Print what was sent and read back, and whether it is the same."""
    console.print(_sources_line(report))
    console.print(_partitions_table(report))
    console.print(_rates_table(report))
    verdict = (
        "every record came back as it was sent, in order; nothing is left running"
        if report.ok
        else f"WRONG: {mistakes(report)}"
    )
    console.print(Text(verdict, style="bold green" if report.ok else "bold red"))


def _sources_line(report: DemoReport) -> str:
    names = ", ".join(str(source.path) for source in report.sources[:6])
    more = f" and {len(report.sources) - 6} more" if len(report.sources) > 6 else ""
    return (
        f"A node was ready {report.start_s:.2f} s after its start. It got {report.rounds} times"
        f" the lines of {names}{more}, and its own log as it grew."
    )


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
        title="Rates (one client process, one node)", title_justify="left", box=box.SIMPLE_HEAD
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
