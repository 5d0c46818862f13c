from quorate.broker.handlers.producer_ids import ProducerIds


class Asked:
    """Counts requests for blocks."""

    def __init__(self) -> None:
        self.count = 0
        self.ids = ProducerIds()
        self.ids.request_block = self.request

    def request(self) -> None:
        self.count += 1


def test_ids_come_from_the_block_each_once_and_the_next_block_is_asked_for_once() -> None:
    asked, taken = Asked(), list[int | None]()
    for _ in range(3):
        asked.ids.take(taken.append)
    assert (taken, asked.count) == ([], 1)
    asked.ids.add_block(5000, 2)
    assert taken == [5000, 5001]
    assert asked.count == 2, "one still waits"
    asked.ids.add_block(7000, 1000)
    assert taken == [5000, 5001, 7000]
    asked.ids.take(taken.append)
    assert (taken[-1], asked.count) == (7001, 2)


def test_without_a_block_those_who_wait_are_told_and_the_next_asks_again() -> None:
    asked, taken = Asked(), list[int | None]()
    asked.ids.take(taken.append)
    asked.ids.no_block()
    assert taken == [None]
    asked.ids.take(taken.append)
    assert asked.count == 2
