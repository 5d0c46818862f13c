"""``quorate metadata``."""

import os
import re
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from quorate.tools.command_line import Command, noun_app, options_of
from quorate.tools.problems import CommandError, UsageError
from quorate.tools.session import run, standard_input

if TYPE_CHECKING:
    from quorate.tools.arguments import GlobalOptions
    from quorate.tools.metadata_reading import Source

app = noun_app("Look at what the controllers agreed on: every record, or the state it made.")

Where = Annotated[
    Path | None,
    typer.Option("--dir", help="A node's directory, read only, instead of controllers that run."),
]
Exported = Annotated[
    Path | None, typer.Option("--file", help="A file of quorate metadata export, likewise.")
]


@app.command("cat", cls=Command)
def cat(
    context: typer.Context,
    *,
    directory: Where = None,
    file: Exported = None,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on with what is decided from now on.")
    ] = False,
    types: Annotated[
        list[str] | None, typer.Option("--type", help="Only these: TopicCreated,TopicRemoved.")
    ] = None,
    since_offset: Annotated[
        int, typer.Option("--since-offset", min=0, help="Only from this offset on.")
    ] = 0,
    topic: Annotated[
        str | None, typer.Option("--topic", "-t", help="Only what is about this topic.")
    ] = None,
) -> None:
    """Print every record: offset, term, time, what, cause.

    Asks the controllers of -C, or those that the brokers of -b know. What is older than their last
    snapshot comes as the facts it left. The last records of a directory may not be committed.
    """
    from quorate.tools.metadata.decided import Filter, parse_types
    from quorate.tools.metadata_reading import print_records

    options = options_of(context)
    if follow and not (directory is None and file is None):
        raise UsageError(
            "what lies on a disk cannot be followed",
            why="what is decided next is known to the controllers that run",
            hint="quorate metadata cat --follow -C 127.0.0.1:9190",
        )
    wanted = Filter(parse_types(types or ()), since_offset, topic)
    print_records(options, _source(options, directory, file), wanted, sys.stdout, follow=follow)


@app.command("shell", cls=Command)
def shell(
    context: typer.Context,
    words: Annotated[
        list[str] | None, typer.Argument(metavar="[COMMAND]...", help="Run it and leave.")
    ] = None,
    *,
    directory: Where = None,
    file: Exported = None,
) -> None:
    """Walk through the metadata as through folders.

    There are ls, cd, pwd, cat, tree, find, records (what made it so), refresh and help.
    """
    import shutil

    from quorate.tools.metadata.browser import BrowseError, Browser, Screen
    from quorate.tools.metadata_reading import browse, read_records, read_root

    source = _source(options_of(context), directory, file)
    columns = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    browser = Browser(lambda: read_root(source), lambda: read_records(source), Screen(columns))
    if not words:
        browse(browser, interactive=standard_input().isatty())
        return
    try:
        for line in browser.run(words):
            print(line)
    except BrowseError as error:
        raise CommandError(
            str(error), why="the metadata has no such thing now", hint="quorate metadata shell find"
        ) from None
    except EOFError:
        return


Path_ = Annotated[str, typer.Argument(metavar="[PATH]", help="As in the shell: /topics/orders.")]


class MomentCommand(Command):
    """A command whose arguments may be how long ago: ``-1h`` is no option."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the words."""
        moments = [f"@{word}" if re.match(r"-\d", word) else word for word in args]
        return super().parse_args(ctx, moments)


@app.command("at", cls=MomentCommand)
def at(
    context: typer.Context,
    moment: Annotated[str, typer.Argument(metavar="MOMENT", help="Offset, time, -1h, or now.")],
    path: Path_ = "/",
    *,
    directory: Where = None,
    file: Exported = None,
) -> None:
    """Print the metadata as they were at an offset or a time."""
    from quorate.tools.metadata.travel import contents_of, image_at, leaves, parse_point, text_of
    from quorate.tools.metadata_reading import read_batches
    from quorate.tools.output import document_text

    options = options_of(context)
    point = parse_point(moment, time.time_ns() // 1_000_000)
    found = contents_of(image_at(read_batches(_source(options, directory, file)), point), path)
    if options.format in {"table", "wide"}:
        prefix = path.rstrip("/")
        for name, value in leaves(found):
            print(f"{prefix}{name if name != '/' else ''} = {text_of(value)}")
        return
    document = {"kind": "metadata", "version": 1, "path": path, "contents": found}
    sys.stdout.write(document_text(document, options.format))


@app.command("diff", cls=MomentCommand)
def diff(
    context: typer.Context,
    before: Annotated[str, typer.Argument(metavar="BEFORE", help="Offset, time, or -1h.")],
    after: Annotated[str, typer.Argument(metavar="[AFTER]", help="Likewise; now.")] = "now",
    path: Path_ = "/",
    *,
    directory: Where = None,
    file: Exported = None,
    exit_code: Annotated[
        bool, typer.Option("--exit-code", help="End with 3 if anything differs.")
    ] = False,
) -> None:
    """Print what changed between two moments."""
    from quorate.tools.metadata.travel import diff_table, image_at, parse_point
    from quorate.tools.metadata_reading import read_batches
    from quorate.tools.problems import EXIT_PROBLEM_FOUND
    from quorate.tools.session import print_table

    options = options_of(context)
    now_ms = time.time_ns() // 1_000_000
    points = [parse_point(text, now_ms) for text in (before, after)]
    batches = read_batches(_source(options, directory, file))
    old, new = (image_at(batches, point) for point in points)
    table = diff_table(old, new, path)
    print_table(options, table)
    if exit_code and table.rows:
        raise typer.Exit(EXIT_PROBLEM_FOUND)


@app.command("export", cls=MomentCommand)
def export(
    context: typer.Context,
    moment: Annotated[
        str, typer.Argument(metavar="[MOMENT]", help="Offset, time, -1h; now.")
    ] = "now",
    *,
    to: Annotated[Path, typer.Option("--to", help="A file: .json, or .cbor, which is smaller.")],
    directory: Where = None,
    file: Exported = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="If the file is there.")] = False,
) -> None:
    """Write the metadata of a moment to a file, which appears when it is whole.

    "quorate metadata shell --file FILE" walks through it; cat, at and diff read it, too.
    """
    from quorate.tools.metadata import exported as files
    from quorate.tools.metadata.travel import image_at, parse_point
    from quorate.tools.metadata_reading import read_batches
    from quorate.tools.output import document_text
    from quorate.tools.session import say

    options = options_of(context)
    files.check_name(to)
    point = parse_point(moment, time.time_ns() // 1_000_000)
    batches = read_batches(_source(options, directory, file))
    one = files.exported(image_at(batches, point), batches)
    data = files.encode(one, to.suffix)
    files.write_exported(to, data, overwrite=overwrite)
    if options.format not in {"table", "wide"}:
        written = {**one.document(), "path": str(to), "size_bytes": len(data)}
        sys.stdout.write(document_text(written, options.format))
    say(options, f"Wrote the metadata at offset {one.image.version} to {to}.")


def _source(options: "GlobalOptions", directory: Path | None, file: Path | None) -> "Source":
    from quorate.tools.metadata_reading import Controllers, Directory, File
    from quorate.tools.reaching import find_controllers, tls_of

    if directory is not None and file is not None:
        raise UsageError(
            "--dir and --file are two places",
            why="metadata are read from one of them",
            hint="leave one out",
        )
    if file is not None:
        return File(file)
    if directory is not None:
        return Directory(directory)
    endpoints = run(find_controllers, options, os.environ)
    return Controllers(endpoints, options.timeout_s, tls_of(options))
