"""``quorate log dump`` and ``quorate log verify``: log files without a broker."""

import sys
from pathlib import Path
from typing import Annotated

from quorate.tools.arguments import GlobalOptions
from quorate.tools.command_line import Argument, Noun, option

NOUN = Noun("Print and check log files without a broker.")

Paths = Annotated[list[Path], Argument("PATH", help="Segment files, or folders of them.")]


@NOUN.verb("dump")
def dump(
    options: GlobalOptions,
    paths: Paths,
    *,
    data: Annotated[
        bool,
        option("--data", "--print-data-log", "--deep-iteration", help="Records too."),
    ] = False,
    metadata: Annotated[
        bool, option("--metadata", help="The records of a controller's journal.")
    ] = False,
) -> None:
    """Print the batches of segments, the entries of indexes, or what controllers decided."""
    from quorate.tools import dumping

    if metadata:
        dumping.dump_metadata(options, paths, sys.stdout)
    else:
        dumping.dump(options, paths, sys.stdout, with_records=data)


@NOUN.verb("verify")
def verify(options: GlobalOptions, paths: Paths) -> None:
    """Check checksums, offsets, records and indexes; exit code 3 if something is wrong."""
    from quorate.tools.dumping import verify as verify_files

    verify_files(options, paths)
