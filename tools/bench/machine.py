"""What the figures depend on beside our code: the machine and other people's versions."""

import importlib.metadata
import os
import platform
import shutil
import subprocess
import time
from pathlib import Path

import confluent_kafka

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("trio", "confluent-kafka", "aiokafka", "google-crc32c")


def machine_facts() -> dict[str, str]:
    """Return the facts that a reader needs; nothing that names a machine or a person."""
    return {
        "when": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "commit": _first_line(["git", "-C", str(ROOT), "rev-parse", "--short", "HEAD"]),
        "cores": str(os.cpu_count()),
        "cpu": _cpu_model(),
        "memory": f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 2**30:.0f} GiB",
        "kernel": f"{platform.system()} {platform.release().partition('-')[0]}",
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "java": _first_line(["java", "-version"]),
        "librdkafka": str(confluent_kafka.libversion()[0]),
        **{package: _version(package) for package in PACKAGES},
    }


def _cpu_model() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return ""


def _first_line(command: list[str]) -> str:
    program = shutil.which(command[0])
    if program is None:
        return ""
    done = subprocess.run(  # noqa: S603 - words of our own
        [program, *command[1:]], capture_output=True, text=True, check=False, timeout=30
    )
    return (done.stdout or done.stderr).partition("\n")[0]
