"""The table of error codes."""

from quorate.errors import ErrorCode, KafkaError, OffsetOutOfRangeError, known_code


def test_codes_that_this_release_does_not_know_are_unknown_errors() -> None:
    assert known_code(3) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert known_code(-1) is known_code(30_000) is ErrorCode.UNKNOWN_SERVER_ERROR


def test_an_error_says_whether_it_may_pass() -> None:
    assert KafkaError("m", code=ErrorCode.NOT_LEADER_OR_FOLLOWER).retriable
    assert not OffsetOutOfRangeError("m").retriable
