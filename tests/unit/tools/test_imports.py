"""What starting the command line imports: every module costs whoever types a command."""

import subprocess
import sys

SLOW = ("textual", "rich", "pyspark", "pyarrow", "numpy", "prometheus_client", "confluent_kafka")


def test_listing_topics_imports_nothing_that_it_does_not_need() -> None:
    program = (
        "import sys, quorate.tools.cli, quorate.tools.commands.topics, quorate.tools.topics;"
        "print(*sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    roots = {name.partition(".")[0] for name in done.stdout.split()}
    assert not roots & set(SLOW)
    assert "quorate.broker.app" not in done.stdout.split()
