"""What a workload says of its topics is what is audited in the end."""

from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, cast

import pytest

from quorate.jepsen.recorder import Recorder
from quorate.jepsen.workloads.growth import GROWTH
from quorate.jepsen.workloads.reassign import REASSIGN
from quorate.jepsen.workloads.workload import Context, TopicOptions, WorkloadKind

if TYPE_CHECKING:
    from quorate.jepsen.lab.cluster import Lab


@pytest.mark.parametrize(("kind", "stays"), [(REASSIGN, False), (GROWTH, True)])
def test_topics_whose_partitions_change_are_told_too(
    kind: WorkloadKind, tmp_path: Path, *, stays: bool
) -> None:
    recorder = Recorder(tmp_path / "history.cbor", {})
    options = TopicOptions(6, 3, {})
    lab = cast("Lab", None)
    context = Context("127.0.0.1:1", recorder, Random(1), "own", 1, "all", options, lab, tmp_path)
    (topic,) = kind.make(context).topics()
    assert (topic.name, topic.stays) == (kind.name, stays)
    recorder.close()
