"""Compiles what is preloaded into processes under test, where there is a C compiler."""

import os
import shutil
import subprocess
from pathlib import Path

from quorate.errors import QuorateError


class NotCompiledError(QuorateError):
    """The compiler refuses; says why."""


def compiler() -> str | None:
    """Return a C compiler, if there is one."""
    return shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")


def build_library(source: Path, folder: Path) -> Path:
    """Compile something to preload into a folder, unless it is there; it takes a moment.

    Raises:
        NotCompiledError: it cannot be compiled here.
    """
    target = folder / source.with_suffix(".so").name
    if target.exists():
        return target
    command = compiler()
    assert command is not None, "asked for before"
    made = target.with_suffix(f".{os.getpid()}")  # others may want it at the same time
    words = [command, "-O2", "-Wall", "-Wextra", "-shared", "-fPIC", "-o", str(made), str(source)]
    done = subprocess.run(
        [*words, "-ldl", "-lpthread"], capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise NotCompiledError(f"{source.name} cannot be compiled: {done.stderr.strip()}")
    return made.rename(target)
