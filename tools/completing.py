"""What the tab key offers beside commands and options: nodes, workloads, faults, Kafka's tools."""

from pathlib import Path
from typing import Any

import typer.core


def node_names(ctx: typer.Context) -> list[str]:
    """Return the nodes of the cluster that a command is about; none if there is no cluster."""
    from quorate.tools.cluster_directory import ClusterDirectory
    from quorate.tools.problems import CommandError

    try:
        layout = ClusterDirectory(Path(ctx.params.get("directory") or ".quorate")).layout()
    except (CommandError, OSError):
        return []
    return [member.name for member in layout.members]


def workload_names() -> list[str]:
    """Return what clients can do while a cluster is broken."""
    from quorate.jepsen.workloads.registry import WORKLOADS

    return list(WORKLOADS)


def fault_names(incomplete: str) -> list[str]:
    """Return the faults, behind those that were named already."""
    from quorate.jepsen.nemesis.faults import FAULTS

    named, comma, _ = incomplete.rpartition(",")
    return [f"{named}{comma}{name}" for name in FAULTS if name not in named.split(",")]


def kafka_tool(name: str) -> Any:
    """Return one of Kafka's tools with its options, for the tab key alone: it takes them itself."""
    from quorate.tools.shims.running import SHIMS

    _, known = SHIMS[name].load()
    flags = [(option, True) for option in known.flags]
    params: list[Any] = [
        typer.core.TyperOption(param_decls=[f"--{option}"], is_flag=is_flag)
        for option, is_flag in sorted([*flags, *((option, False) for option in known.values)])
    ]
    return typer.core.TyperCommand(name, params=params, add_help_option=False)
