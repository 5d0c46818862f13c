"""A cache of things that are slow to make: made once, by one process, whole or not at all."""

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
CACHE = ROOT / ".cache"
ERROR_LINES_MAX = 6

# Tools like to name the address they failed to reach, which helps nobody who reads a report.
_ADDRESS = re.compile(r"\s*\(?\bhttps?://\S+")


class PeerUnavailableError(Exception):
    """Something of other people's cannot be had on this machine; `reason` says what and why."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def program(*names: str) -> str:
    """Return the path of the first of these programs that is installed."""
    for name in names:
        if path := shutil.which(name):
            return path
    raise PeerUnavailableError(f"{' or '.join(names)} is not installed")


def run(
    command: Sequence[str | Path], *, timeout_s: float, env: Mapping[str, str] | None = None
) -> str:
    """Run a command to its end and return what it printed; not a word of it on success."""
    name = Path(command[0]).name
    try:
        done = subprocess.run(
            [str(word) for word in command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={**os.environ, **(env or {})},
            timeout=timeout_s,
            check=False,
            text=True,
            errors="replace",
        )
    except subprocess.TimeoutExpired as error:
        raise PeerUnavailableError(f"{name} did not finish in {timeout_s:.0f} s") from error
    except OSError as error:
        raise PeerUnavailableError(f"{name} cannot be started: {error.strerror}") from error
    if done.returncode != 0:
        raise PeerUnavailableError(f"{name} failed: {summary_of(done.stdout)}")
    return done.stdout


def summary_of(output: str) -> str:
    """Return the lines of a failed command that are most likely to say why, without addresses."""
    lines = [_ADDRESS.sub("", line).strip() for line in output.splitlines() if line.strip()]
    errors = [line for line in lines if "error" in line.lower()]
    return " / ".join((errors or lines[-ERROR_LINES_MAX:])[:ERROR_LINES_MAX]) or "no output"


def digest_of(parts: Iterable[str | bytes]) -> str:
    """Return a short name for these inputs, so that other inputs get another place."""
    digest = hashlib.sha256()
    for part in parts:
        content = part.encode() if isinstance(part, str) else part
        digest.update(len(content).to_bytes(8, "big") + content)
    return digest.hexdigest()[:16]


@contextmanager
def exclusive(name: str) -> Generator[None]:
    """Let one process at a time into the section called `name`; the others wait."""
    locks = CACHE / "locks"
    locks.mkdir(parents=True, exist_ok=True)
    with (locks / name.replace("/", "_")).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def made(name: str, make: Callable[[Path], None]) -> Path:
    """Return the folder `name` in the cache, filled by `make(folder)` if it is not there yet.

    `make` gets an empty folder beside the final place, which takes that place by one rename, so
    whoever finds the folder finds it complete.
    """
    folder = CACHE / name
    if folder.is_dir():
        return folder
    with exclusive(name):
        if folder.is_dir():  # made by whoever held the lock before us
            return folder
        folder.parent.mkdir(parents=True, exist_ok=True)
        unfinished = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
        try:
            make(unfinished)
            unfinished.rename(folder)
        finally:
            shutil.rmtree(unfinished, ignore_errors=True)
    return folder
