"""Real log lines that are on this machine: which files to read, as what, and their lines."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from quorate.dataclass import dataclass

TOPICS: Final = ("appLogs", "ingressLogs", "dbLogs")
APP: Final = "appLogs"
INGRESS: Final = "ingressLogs"
DB: Final = "dbLogs"

_INGRESS_WORDS: Final = ("syslog", "messages", "auth", "secure", "kern", "nginx", "apache", "boot")
_DB_WORDS: Final = ("dpkg", "apt/", "dnf", "yum", "apk", "pacman", "alternatives", "sql", "mongo")
_SKIPPED_SUFFIXES: Final = frozenset({".gz", ".xz", ".bz2", ".zst", ".journal", ".1"})

FALLBACKS: Final = {
    INGRESS: ("/proc/net/dev", "/proc/net/tcp", "/proc/net/sockstat", "/proc/interrupts"),
    DB: ("/var/lib/dpkg/status", "/lib/apk/db/installed", "/var/lib/dpkg/available"),
    APP: ("/proc/meminfo", "/proc/vmstat", "/proc/self/status"),
}
"""Text that minimal systems have where log files are missing."""

SOURCE_BYTES_MAX: Final = 4 << 20
LINE_BYTES_MAX: Final = 512 << 10
PROBE_BYTES: Final = 4096


@dataclass(frozen=True, slots=True)
class Source:
    """A file whose lines go to a topic; its path is their key."""

    topic: str
    path: Path

    @property
    def key(self) -> bytes:
        """The key of its records."""
        return str(self.path).encode()


def topic_of(path: Path) -> str:
    """Return the topic that a log file's lines belong to."""
    name = str(path).lower()
    if any(word in name for word in _DB_WORDS):
        return DB
    return INGRESS if any(word in name for word in _INGRESS_WORDS) else APP


def find_sources(folder: Path, topics: Sequence[str]) -> list[Source]:
    """Return the readable text files below a folder of logs, and fallbacks for topics without."""
    found = [
        Source(topic_of(path), path)
        for path in sorted(_files_below(folder))
        if path.suffix not in _SKIPPED_SUFFIXES and path.name != "README" and is_text(path)
    ]
    for topic in topics:
        if not any(source.topic == topic for source in found):
            paths = map(Path, FALLBACKS[topic])
            found += [Source(topic, path) for path in paths if is_text(path)]
    return found


def _files_below(folder: Path) -> Iterator[Path]:
    try:
        entries = list(folder.iterdir())
    except OSError:
        return
    for entry in entries:
        try:
            if entry.is_dir() and not entry.is_symlink():
                yield from _files_below(entry)
            elif entry.is_file():
                yield entry
        except OSError:
            continue


def is_text(path: Path) -> bool:
    """Whether a file can be read, holds something, and begins without a zero byte."""
    try:
        with path.open("rb") as file:
            beginning = file.read(PROBE_BYTES)
    except OSError:
        return False
    return bool(beginning) and b"\0" not in beginning


def read_lines(path: Path) -> list[bytes]:
    """Return the lines of a file, as far as is good for a demonstration; empty ones left out."""
    try:
        with path.open("rb") as file:
            data = file.read(SOURCE_BYTES_MAX)
    except OSError:
        return []
    return [line[:LINE_BYTES_MAX] for line in data.splitlines() if line]


class GrowingFile:
    """Reads the lines of a file as it grows; a line counts once its end is there."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._position = 0

    def new_lines(self) -> list[bytes]:
        """Return the lines that came since the last call."""
        with self._path.open("rb") as file:
            file.seek(self._position)
            data = file.read()
        end = data.rfind(b"\n") + 1
        self._position += end
        return [line for line in data[:end].splitlines() if line]
