"""Files that people ask for: each appears when it is whole, or not at all."""

from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

from quorate.tools.problems import CommandError, RefusedError


@contextmanager
def unfinished_file(path: Path, *, overwrite: bool) -> Generator[Path]:
    """Yield where to write; what is there at the end of the block gets the name.

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
