"""A thread that writes down again and again what the cluster says of itself."""

import threading
import time
from typing import Any, Final

from quorate.jepsen.gauging import Gauge
from quorate.jepsen.lab.cluster import ClusterView, Lab, PartitionView
from quorate.jepsen.recorder import WATCHER, Recorder, Scribe

LOOK_S: Final = 0.2
AT_LEAST_S: Final = 5.0
END_S_MAX: Final = 10.0


class Watcher:
    """Looks from :meth:`start` to :meth:`stop`; notes what has changed, or after five seconds.

    Beside it a gauge asks how far the partitions that it saw are committed.
    """

    def __init__(self, lab: Lab, recorder: Recorder) -> None:
        self._lab = lab
        self._scribe = Scribe(recorder, WATCHER)
        self._gauge = Gauge(lab.bootstrap, recorder, lambda: self._partitions)
        self._partitions: list[str] = []
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()
        self._gauge.start()

    def stop(self) -> None:
        """Look no more."""
        self._stopping.set()
        self._gauge.stop()
        if self._thread.is_alive():
            self._thread.join(END_S_MAX)

    def _run(self) -> None:
        before: ClusterView | None = None
        noted_s = 0.0
        while not self._stopping.wait(LOOK_S):
            view = self._lab.view()
            self._partitions = list(view.partitions)
            if view != before or time.monotonic() - noted_s > AT_LEAST_S:
                self._scribe.tell("view", _plain(view))
                before, noted_s = view, time.monotonic()


def _plain(view: ClusterView) -> dict[str, Any]:
    partitions = {name: _led(state) for name, state in view.partitions.items()}
    terms = [[said.controller, said.term, said.leader] for said in view.terms]
    plain: dict[str, Any] = {"partitions": partitions, "terms": terms}
    if view.disputed:
        plain["disputed"] = [[name, *_led(state)] for name, state in view.disputed]
    return {"controller": view.controller, **plain}


def _led(state: PartitionView) -> list[Any]:
    return [state.leader, state.leader_epoch, sorted(state.in_sync)]
