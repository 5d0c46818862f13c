"""Programs in C: kcat, and what we build on librdkafka ourselves."""

import importlib.util
import re
import shlex
import shutil
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.compat.peers import cache

HERE = Path(__file__).resolve().parent
COMPILER_TIMEOUT_S = 120.0
PACKAGE_TIMEOUT_S = 300.0


@dataclass(frozen=True, slots=True)
class Library:
    """How to compile and link against a C library, and where it came from."""

    compile_flags: tuple[str, ...]
    link_flags: tuple[str, ...]
    origin: str


NO_LIBRARY = Library((), (), "none")


def librdkafka() -> Library:
    """Return librdkafka: the one inside confluent-kafka's wheel, else the system's.

    The wheel's is newer than any distribution's, is the one that Python users run, and is pinned
    with our development dependencies.  It comes without headers; ours in `include/` declare the
    part of its stable binary interface that we use.
    """
    return _from_wheel() or _from_system()


def _from_wheel() -> Library | None:
    spec = importlib.util.find_spec("confluent_kafka")
    if spec is None or spec.origin is None:
        return None
    folder = Path(spec.origin).parent.with_name("confluent_kafka.libs")
    libraries = sorted(folder.glob("librdkafka-*.so*"))
    if not libraries:
        return None
    return Library(
        (f"-I{HERE / 'include'}",),
        (str(libraries[0]), f"-Wl,-rpath,{folder}"),
        f"wheel {libraries[0].name}",
    )


def _from_system() -> Library:
    pkg_config = cache.program("pkg-config")
    flags = [
        tuple(shlex.split(cache.run([pkg_config, option, "rdkafka"], timeout_s=COMPILER_TIMEOUT_S)))
        for option in ("--cflags", "--libs")
    ]
    return Library(flags[0], flags[1], "system")


def compile_c(source: Path, *, library: Library = NO_LIBRARY, flags: Sequence[str] = ()) -> Path:
    """Return the program compiled from `source` and the headers beside it."""
    compiler = cache.program("cc", "gcc", "clang")
    headers = sorted([*source.parent.glob("*.h"), *(HERE / "include").rglob("*.h")])
    arguments = ["-O2", "-std=gnu11", "-Wall", "-Wextra", "-Werror", *flags]
    digest = cache.digest_of(
        [
            source.read_bytes(),
            *(header.read_bytes() for header in headers),
            *(compiler, *arguments, *library.compile_flags, *library.link_flags),
        ]
    )

    def compile_into(folder: Path) -> None:
        output = str(folder / source.stem)
        command = [compiler, *arguments, *library.compile_flags, str(source), "-o", output]
        cache.run([*command, *library.link_flags, "-lpthread", "-lm"], timeout_s=COMPILER_TIMEOUT_S)

    return cache.made(f"native/{source.stem}-{digest}", compile_into) / source.stem


def kcat() -> Path:
    """Return kcat: the installed one, else Debian's package unpacked into the cache."""
    try:
        return Path(cache.program("kcat", "kafkacat"))
    except cache.PeerUnavailableError:
        return cache.made("kcat", _unpack_kcat) / "kcat"


def _unpack_kcat(folder: Path) -> None:
    """Download kcat with the libraries that are not installed; nothing outside `folder` changes."""
    for state in ("lists/partial", "archives/partial"):
        (folder / state).mkdir(parents=True)
    options = [
        *("-o", f"Dir::State::lists={folder / 'lists'}"),
        *("-o", f"Dir::Cache={folder}"),
        *("-o", f"Dir::Cache::archives={folder / 'archives'}"),
        *("-o", "Debug::NoLocking=1", "-q"),
    ]
    apt = cache.program("apt-get")
    cache.run([apt, *options, "update"], timeout_s=PACKAGE_TIMEOUT_S)
    wanted = cache.run(
        [apt, *options, "install", "-y", "--no-install-recommends", "--print-uris", "kcat"],
        timeout_s=PACKAGE_TIMEOUT_S,
    )
    names = re.findall(r"^'[^']*' ([^_ ]+)_\S+\.deb ", wanted, re.MULTILINE)
    script = f'cd "{folder / "archives"}" && exec "$0" "$@"'
    command = ["/bin/sh", "-c", script, apt, *options, "download", *names]
    cache.run(command, timeout_s=PACKAGE_TIMEOUT_S)
    for package in (folder / "archives").glob("*.deb"):
        command = [cache.program("dpkg-deb"), "-x", str(package), str(folder / "root")]
        cache.run(command, timeout_s=PACKAGE_TIMEOUT_S)
    for state in ("lists", "archives"):
        shutil.rmtree(folder / state)
    _write_launcher(folder)


def _write_launcher(folder: Path) -> None:
    """Write a script that finds the unpacked program beside itself, wherever the folder went."""
    libraries = sorted({path.parent for path in (folder / "root").rglob("*.so*")})
    search = ":".join(f"$here/{path.relative_to(folder)}" for path in libraries)
    launcher = folder / "kcat"
    launcher.write_text(
        '#!/bin/sh\nhere=$(dirname "$(readlink -f "$0")")\n'
        f'LD_LIBRARY_PATH="{search}${{LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}}"\n'
        "export LD_LIBRARY_PATH\n"
        'exec "$here/root/usr/bin/kcat" "$@"\n'
    )
    launcher.chmod(launcher.stat().st_mode | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)
