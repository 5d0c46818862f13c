"""The connector where nothing of the checkout is: from a wheel, in a fresh environment.

``python -m tests.compat.spark.elsewhere --pyspark 4.2.1 --python python3.11`` installs what a user
would, and runs ``job.py`` in a program, with two executors in JVMs of their own, with spark-submit
and in a notebook. It downloads half a gigabyte and takes some minutes.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import venv
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from tests.compat import serving
from tests.compat.spark.conftest import ROOT

JOB: Final = Path(__file__).with_name("job.py")
TIMEOUT_S: Final = 600


def install(folder: Path, pyspark: str, python: str) -> Path:
    """Return the ``bin`` of an environment with a wheel of this checkout."""
    if python:
        run([python, "-m", "venv", str(folder / "venv")], folder)
    else:
        venv.create(folder / "venv", with_pip=True)
    programs = folder / "venv/bin"
    pip = [str(programs / "python"), "-m", "pip", "--disable-pip-version-check", "-q"]
    run([*pip, "wheel", "--no-deps", "-w", str(folder), str(ROOT)], folder)
    (wheel,) = folder.glob("quorate-*.whl")
    run([*pip, "install", f"pyspark{pyspark}", f"{wheel}[spark]", "nbclient", "ipykernel"], folder)
    return programs


def run(command: Sequence[str], folder: Path, **variables: str) -> str:
    """Return the last line that a program says; what it needs of the environment is little."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "JAVA_HOME") if name in os.environ}
    environment = {**kept, "TMPDIR": str(folder), "SPARK_LOCAL_IP": "127.0.0.1", **variables}
    done = subprocess.run(
        command,
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} has failed:\n{done.stdout}{done.stderr}"[-8_000:])
    return done.stdout.strip().rpartition("\n")[2]


def notebook(servers: str) -> dict[str, Any]:
    """Return a notebook that runs the job."""
    cells = (
        f"import sys; sys.path.insert(0, {str(JOB.parent)!r}); import job",
        f"job.main({servers!r}, 'local[2]')",
    )
    code: dict[str, Any] = {
        "cell_type": "code",
        "execution_count": None,
        "metadata": {},
        "outputs": [],
    }
    made = [{**code, "id": f"cell-{i}", "source": text} for i, text in enumerate(cells)]
    return {"cells": made, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}


def check(programs: Path, servers: str, folder: Path) -> None:
    """Run the job in every way, and say where it ran."""
    path = f"{programs}:{os.environ['PATH']}"
    variables = {"PATH": path, "PYSPARK_PYTHON": str(programs / "python")}
    python = str(programs / "python")
    for master in ("local[2]", "local-cluster[2,1,1024]"):
        say("program", run([python, str(JOB), servers, master], folder, **variables))
    submit = [str(programs / "spark-submit"), "--master", "local[2]", str(JOB), servers]
    say("spark-submit", run(submit, folder, **variables))
    page = folder / "page.ipynb"
    page.write_text(json.dumps(notebook(servers)))
    run([str(programs / "jupyter-execute"), "--inplace", str(page)], folder, **variables)
    (said,) = json.loads(page.read_text())["cells"][1]["outputs"][-1:]
    say("notebook", "".join(said["data"]["text/plain"]))


def say(how: str, where: str) -> None:
    """Tell how and where the job was done."""
    print(f"{how}: {where}", flush=True)  # noqa: T201


def main() -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(prog="tests.compat.spark.elsewhere", description=__doc__)
    parser.add_argument("--pyspark", default="", help="which version; the newest")
    parser.add_argument("--python", default="", help="another one than this")
    arguments = parser.parse_args()
    version = f"=={arguments.pyspark}" if arguments.pyspark else ""
    with tempfile.TemporaryDirectory(prefix="quorate-elsewhere-") as name:
        folder = Path(name)
        programs = install(folder, version, arguments.python)
        with serving.quorate({}, folder / "node") as node:
            check(programs, node.server.bootstrap, folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
