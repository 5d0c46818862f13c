"""The disk of a controller: forgets what was not synced, fills up, takes its time, and may lie."""

from random import Random

from quorate.quorum.raft.simulated_storage import SimulatedStorage


class Disk(SimulatedStorage):
    """Owns a controller's files, and how long its syncs take.

    A disk that ``lies`` says it has synced what it has not.
    """

    def __init__(self, rng: Random, *, lies: bool) -> None:
        super().__init__(rng)
        self._own_rng = rng
        self._lies = lies
        self.sync_min_s = 0.0001
        self.sync_max_s = 0.001
        self.stalled_until_s = 0.0

    def done_s(self, now_s: float) -> float:
        """Return when a flush that starts now is done."""
        takes_s = self._own_rng.uniform(self.sync_min_s, self.sync_max_s)
        return max(now_s, self.stalled_until_s) + takes_s

    def snapshot_done_s(self, now_s: float) -> float:
        """Return when a snapshot is written whose writing starts now, beside everything else."""
        return self.done_s(now_s) + self._own_rng.choice((0.0, 0.0, 0.05, 1.0))

    def sync(self, name: str) -> None:
        if not self._lies:
            super().sync(name)
