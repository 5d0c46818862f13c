"""What the next sample must not pay for."""

import threading
import time
from pathlib import Path

import pytest

from quorate.tools.bench import scenarios, topics

TOPIC, OTHER = "p1_7", "p1_70"
BOOTSTRAP = "127.0.0.1:1"
LATER_S = 0.3


def test_a_topic_is_removed_when_its_files_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directories = [tmp_path / "1", tmp_path / "2"]
    for directory in directories:
        for topic in (TOPIC, OTHER):
            (directory / "data" / f"{topic}-0").mkdir(parents=True)

    def delete_topic(bootstrap: str, topic: str) -> None:
        assert (bootstrap, topic) == (BOOTSTRAP, TOPIC)
        first, second = (directory / "data" / f"{TOPIC}-0" for directory in directories)
        first.rmdir()
        renamed = second.rename(f"{second}.ab-delete")
        threading.Timer(LATER_S, renamed.rmdir).start()

    monkeypatch.setattr(topics, "delete_topic", delete_topic)
    begun = time.monotonic()
    scenarios.remove_topic(BOOTSTRAP, TOPIC, directories)
    assert time.monotonic() - begun > LATER_S
    assert [path.name for path in tmp_path.glob("*/data/*")] == [f"{OTHER}-0", f"{OTHER}-0"]
