"""Files that appear when they are whole, or not at all."""

import os
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

from quorate.tools.problems import CommandError, RefusedError


def replace_file(path: Path, text: str, *, mode: int = 0o666) -> None:
    """Replace a file of our own: a reader sees the old or the new one.

    Raises:
        OSError: it cannot be written; names the file, which Python does for those it cannot open.
    """
    temporary = path.with_name(f"{path.name}.new")
    try:
        temporary.unlink(missing_ok=True)  # it would keep its mode
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
        temporary.replace(path)
    except OSError as error:
        with suppress(OSError):
            temporary.unlink()
        error.filename = str(path)
        raise


@contextmanager
def unfinished_file(path: Path, *, overwrite: bool) -> Generator[Path]:
    """Yield where to write what a person asked for; at the end of the block it gets the name.

    Raises:
        RefusedError: the file is there, and is not to be overwritten.
        CommandError: it cannot be written.
    """
    if not overwrite and path.exists():
        raise RefusedError(f"{path} is there already", why="it is kept", hint="add --overwrite")
    unfinished = path.with_name(f".{path.name}.part")
    try:
        yield unfinished
        unfinished.replace(path)
    except OSError as error:
        raise CommandError(
            f"cannot write {path}", why=error.strerror or str(error), hint="another --to"
        ) from None
    finally:
        with suppress(OSError):
            unfinished.unlink()
