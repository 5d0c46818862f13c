import struct

from quorate.tools.bench.topics import Address, keys_in, leaders_in, string


def test_an_address_is_host_and_port() -> None:
    assert Address.parse("127.0.0.1:9092") == Address("127.0.0.1", 9092)


def test_the_keys_that_a_broker_offers_are_found() -> None:
    answer = (
        struct.pack(">hi", 0, 2) + struct.pack(">hhh", 0, 3, 12) + struct.pack(">hhh", 19, 2, 7)
    )
    assert keys_in(answer) == {0, 19}


def metadata_answer(leaders: list[int]) -> bytes:
    broker = struct.pack(">i", 1) + string("127.0.0.1") + struct.pack(">i", 9092) + string(None)
    topic = struct.pack(">h", 0) + string("orders") + b"\0" + struct.pack(">i", len(leaders))
    for number, leader in enumerate(leaders):
        topic += struct.pack(">hii", 0, number, leader)
        topic += struct.pack(">ii", 1, 1) + struct.pack(">iii", 2, 1, 2)
    return (
        struct.pack(">ii", 0, 1)
        + broker
        + string("cluster")
        + struct.pack(">i", 1)
        + struct.pack(">i", 1)
        + topic
    )


def test_the_leader_of_every_partition_is_found() -> None:
    assert leaders_in(metadata_answer([1, -1, 2])) == [1, -1, 2]
    assert leaders_in(metadata_answer([])) == []
