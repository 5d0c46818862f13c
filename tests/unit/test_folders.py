"""What tests of a folder share ends when the last of them has run."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
HOOKS = "from tests.folders import pytest_collect_directory"
SHARED = """
import pytest

@pytest.fixture(scope="package")
def shared():
    print("begins")
    yield
    print("ends")
"""
FILES = {
    "conftest.py": HOOKS,
    "early/conftest.py": SHARED,
    "early/test_one.py": "def test_one(shared): print('one')",
    "early/test_two.py": "def test_two(shared): print('two')",
    "late/test_three.py": "def test_three(): print('three')",
}

WORDS = ("begins", "one", "two", "ends", "three")


def test_a_fixture_of_a_folder_begins_once_and_ends_before_the_next_folder(tmp_path: Path) -> None:
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    options = ["--import-mode=importlib", "-p", "no:cacheprovider", "-s", "-q", "-c", "/dev/null"]
    command = [sys.executable, "-m", "pytest", *options, "--rootdir", str(tmp_path), str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    words = [word.strip(".") for word in done.stdout.split()]
    assert [word for word in words if word in WORDS] == list(WORDS)
