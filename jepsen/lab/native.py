"""Compiles what is preloaded into processes under test, where there is a C compiler."""

import shutil
import subprocess
from pathlib import Path


def compiler() -> str | None:
    """Return a C compiler, if there is one."""
    return shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")


def build_library(source: Path, folder: Path) -> Path:
    """Compile something to preload into a folder, unless it is there; it takes a moment."""
    target = folder / source.with_suffix(".so").name
    if target.exists():
        return target
    command = compiler()
    assert command is not None, "asked for before"
    flags = ["-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC"]
    subprocess.run(
        [command, *flags, "-o", str(target), str(source), "-ldl", "-lpthread"], check=True
    )
    return target
