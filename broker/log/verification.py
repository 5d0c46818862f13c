"""Guards: what may begin a transaction is written only if its coordinator knows of it (KIP-890).

Who is to append asks the coordinator first, which takes a while. A marker may be written
meanwhile, by which the answer is about a transaction that is over: the records would begin one
that nobody ends. So a guard is made before asking, shown when appending, and void as soon as
anything of its producer is written (Kafka: ``VerificationGuard``, ``VerificationStateEntry``).
"""

from typing import TYPE_CHECKING

from quorate.records.batch import is_behind

if TYPE_CHECKING:
    from collections.abc import Callable

    from quorate.errors import ErrorCode


class Guard:
    """That the coordinator is being asked for a producer; compared by identity.

    Attributes:
        epoch: the producer's, the newest that asked.
        lowest_sequence: of what waits for the answer in that epoch: nothing behind it comes first.
        adds: whether asking adds the partition (transaction version 2): a transaction of a producer
            of which nothing is known begins with sequence 0 then.
        at_ms: when it was made.
        waiting: who is called back with the coordinator's answers, by what it was asked
            (transactional id, epoch, whether to add).
    """

    __slots__ = ("adds", "at_ms", "epoch", "lowest_sequence", "waiting")

    def __init__(self, epoch: int, sequence: int, *, adds: bool, at_ms: int) -> None:
        self.epoch = epoch
        self.lowest_sequence = sequence
        self.adds = adds
        self.at_ms = at_ms
        self.waiting: dict[tuple[str, int, bool], list[Callable[[ErrorCode], None]]] = {}

    def join(self, epoch: int, sequence: int) -> None:
        """Take note of another batch that waits for the coordinator."""
        if epoch > self.epoch:
            self.epoch, self.lowest_sequence = epoch, sequence
        elif epoch == self.epoch and is_behind(self.lowest_sequence, sequence):
            self.lowest_sequence = sequence
