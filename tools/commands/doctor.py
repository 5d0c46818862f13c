"""``quorate doctor``."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from quorate.tools.command_line import Command, noun_app, options_of
from quorate.tools.problems import ProblemFoundError, UsageError
from quorate.tools.session import print_table, run

if TYPE_CHECKING:
    from quorate.tools.arguments import GlobalOptions
    from quorate.tools.doctor import Finding

app = noun_app("Look for what is wrong: on the way to a cluster, or with this machine.")


@app.command("connect", cls=Command)
def connect(
    context: typer.Context,
    address: Annotated[str, typer.Argument(metavar="HOST:PORT", help="A bootstrap address.")],
) -> None:
    """Go the way of a client, hop by hop: name, port, protocol, then each advertised address.

    A client asks the bootstrap address only once: then it goes where brokers say that they are
    (advertised.listeners). Exit code 3 if something is in the way.
    """
    from quorate.client.routing.cluster import parse_bootstrap
    from quorate.tools.doctor import look_at_connection
    from quorate.tools.reaching import client_of

    options = options_of(context)
    try:
        (endpoint, *_) = parse_bootstrap(address)
    except ValueError as error:
        raise UsageError(str(error), why="an address is host:port", hint="b1:9092") from None
    client = client_of(options, os.environ)
    findings: list[Finding] = run(look_at_connection, endpoint, dict(client.options))
    tell_findings(options, findings)


@app.command("machine", cls=Command)
def machine(
    context: typer.Context,
    *,
    directory: Annotated[
        Path, typer.Option("--dir", help="A node's, a cluster's, or where it is to be.")
    ] = Path(".quorate"),
    port: Annotated[
        int, typer.Option("--port", min=0, max=65_535, help="That a broker is to listen on.")
    ] = 9092,
) -> None:
    """Look at disk, open files, port, clock and versions. Exit code 3 if something is missing."""
    from quorate.tools.doctor import look_at_machine

    tell_findings(options_of(context), look_at_machine(directory, port))


def tell_findings(options: "GlobalOptions", findings: Sequence["Finding"]) -> None:
    """Print findings; the first that is bad is the error.

    Raises:
        ProblemFoundError: one is bad.
    """
    from quorate.tools.doctor import findings_table, worst

    print_table(options, findings_table(findings))
    bad = worst(findings)
    if bad is not None:
        raise ProblemFoundError(f"{bad.check}: no", why=bad.detail, hint=bad.advice)
