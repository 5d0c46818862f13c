"""What ``quorate verify run`` can be asked for: workloads and faults, as far as they are here."""

from quorate.jepsen.nemesis.capabilities import found, network_kind, table
from quorate.jepsen.nemesis.faults import DEFAULT, FAULTS
from quorate.jepsen.workloads.registry import WORKLOADS
from quorate.tools.arguments import GlobalOptions
from quorate.tools.output import Column, Table
from quorate.tools.session import print_table

AUTO = "auto"


def list_workloads(options: GlobalOptions) -> None:
    """Print what clients can do."""
    rows = tuple((kind.name, kind.summary, list(kind.clients)) for kind in WORKLOADS.values())
    columns = (Column("name"), Column("summary"), Column("clients", wide_only=True))
    print_table(options, Table("workloads", columns, rows))


def list_faults(options: GlobalOptions) -> None:
    """Print what can be done to a cluster of ours on this machine, and what is reduced."""
    have = found()
    rows = tuple(
        (
            row.family.name,
            row.family.name in DEFAULT,
            row.extent.value,
            row.family.summary,
            list(row.family.variants),
            row.why or None,
        )
        for row in table(FAULTS.values(), network_kind(AUTO, have), have)
    )
    columns = (
        Column("name"), Column("default"), Column("here"), Column("summary"),
        Column("variants", wide_only=True), Column("why", wide_only=True),
    )  # fmt: skip
    print_table(options, Table("faults", columns, rows))
