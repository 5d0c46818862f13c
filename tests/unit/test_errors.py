"""The table of error codes."""

from quorate.errors import ErrorCode, KafkaError, OffsetOutOfRangeError, known_code
from quorate.protocol.message import encoder
from quorate.protocol.messages.topics import CreatePartitionsResponse, CreatePartitionsTopicResult


def test_codes_that_this_release_does_not_know_are_unknown_errors() -> None:
    assert known_code(3) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert known_code(-1) is known_code(30_000) is ErrorCode.UNKNOWN_SERVER_ERROR


def test_an_error_says_whether_it_may_pass() -> None:
    assert KafkaError("m", code=ErrorCode.NOT_LEADER_OR_FOLLOWER).retriable
    assert not OffsetOutOfRangeError("m").retriable


def test_what_a_message_repeats_of_a_request_has_room_in_every_version_of_an_answer() -> None:
    name = "ü" * 32_767
    message = KafkaError(f"there is no topic {name!r}").message
    result = CreatePartitionsTopicResult(name="t", error_message=message)
    encoder(CreatePartitionsResponse, 0)(CreatePartitionsResponse(results=[result]), [])
    assert message.startswith("there is no topic 'ü")
