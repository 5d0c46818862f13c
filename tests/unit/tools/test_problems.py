"""Errors as people meet them."""

import errno

import pytest

from quorate.broker.log.directory import DirectoryError
from quorate.errors import (
    ErrorCode,
    KafkaError,
    NetworkError,
    QuorateError,
    UnknownTopicOrPartitionError,
)
from quorate.quorum.directory import ControllerDirectoryError
from quorate.tools.problems import (
    EXIT_FAILED,
    EXIT_PROBLEM_FOUND,
    EXIT_UNREACHABLE,
    HINTS,
    CommandError,
    Problem,
    ProblemFoundError,
    explain,
    root_error,
)


def test_an_error_of_the_protocol_is_told_with_its_code_and_a_hint() -> None:
    problem = explain(UnknownTopicOrPartitionError("there is no topic 'a'"))
    assert problem.what == "there is no topic 'a'"
    assert problem.why.startswith("UNKNOWN_TOPIC_OR_PARTITION")
    assert problem.hint == "quorate topics list"
    assert problem.exit_code == EXIT_FAILED


def test_an_error_without_a_message_of_its_own_does_not_say_the_same_twice() -> None:
    bare = UnknownTopicOrPartitionError()
    assert explain(bare).why == "UNKNOWN_TOPIC_OR_PARTITION"
    named = UnknownTopicOrPartitionError(f"topic 'a': {bare.message}")
    assert explain(named).why == "UNKNOWN_TOPIC_OR_PARTITION"


def test_an_error_of_ours_without_words_is_a_bug() -> None:
    class OddError(QuorateError):
        """For our own eyes."""

    assert explain(OddError()).what == "this is a bug in Quorate: OddError"


def test_advice_in_a_message_becomes_the_hint() -> None:
    problem = explain(UnknownTopicOrPartitionError("there is no topic 'a'; try 'b'"))
    assert (problem.what, problem.hint) == ("there is no topic 'a'", "'b'")
    problem = explain(NetworkError("no broker at h:1. Is one running there? Try 'quorate up'"))
    assert (problem.what, problem.hint) == ("no broker at h:1", "'quorate up'")


@pytest.mark.parametrize("code", [ErrorCode.NETWORK_EXCEPTION, ErrorCode.REQUEST_TIMED_OUT])
def test_silence_has_an_exit_code_of_its_own(code: ErrorCode) -> None:
    assert explain(KafkaError("x", code=code)).exit_code == EXIT_UNREACHABLE


def test_errors_of_the_system_name_the_file() -> None:
    problem = explain(PermissionError(13, "Permission denied", "/x"))
    assert problem.what == "/x: Permission denied"


def test_a_directory_that_cannot_be_used_comes_with_advice() -> None:
    long_name = OSError(errno.ENAMETOOLONG, "File name too long", "ddd")
    assert explain(long_name).hint == "a shorter name"
    refused = explain(ControllerDirectoryError("cannot use f/controller: Not a directory"))
    assert "--dir" in refused.hint


def test_what_nobody_expected_is_called_a_bug() -> None:
    assert "bug" in explain(ZeroDivisionError("division by zero")).what


def test_commands_choose_their_exit_codes() -> None:
    error = ProblemFoundError("2 problems", why="because", hint="this")
    assert explain(error) == Problem("2 problems", "because", "this", EXIT_PROBLEM_FOUND)


def test_of_a_group_of_errors_the_one_that_tells_most_is_told() -> None:
    ours = QuorateError("ours")
    group = BaseExceptionGroup("", [ValueError("x"), ExceptionGroup("", [OSError(1, "y"), ours])])
    assert root_error(group) is ours
    assert isinstance(root_error(BaseExceptionGroup("", [KeyboardInterrupt()])), KeyboardInterrupt)
    interrupted = BaseExceptionGroup("", [ours, KeyboardInterrupt()])
    assert isinstance(root_error(interrupted), KeyboardInterrupt)


def test_each_part_is_one_line_and_empty_parts_are_left_out() -> None:
    error = CommandError("a\nb", why="", hint="c")
    assert explain(error).lines() == ["error: a b", "  try: c"]


def test_an_address_that_cannot_be_listened_on_comes_with_advice() -> None:
    assert "--port" in explain(QuorateError("cannot listen on 127.0.0.1:1: no")).hint
    assert explain(QuorateError("something else")).hint == ""


def test_what_another_release_wrote_is_not_to_be_put_back() -> None:
    newer = QuorateError("d/meta.json: log-directory of version 9 instead of log-directory of ...")
    assert "release" in explain(newer).hint
    assert "release" in explain(QuorateError("d has format 9; this version knows 2")).hint
    assert "put that file back" in explain(QuorateError("d has logs, but no meta.json")).hint


def test_hints_are_one_line() -> None:
    assert not any("\n" in hint for hint in HINTS.values())


def test_nothing_ends_without_a_word() -> None:
    assert "KafkaError" not in explain(QuorateError()).what
    assert "QuorateError" in explain(QuorateError()).what
    group = BaseExceptionGroup("", [QuorateError(), ZeroDivisionError("division by zero")])
    assert "ZeroDivisionError" in explain(group).what


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        RuntimeError("can't start new thread"),
        ImportError("cramjam.so: failed to map segment from shared object"),
    ],
)
def test_who_is_given_no_memory_and_no_threads_is_told_so(error: Exception) -> None:
    problem = explain(error)
    assert "no more memory, or no more threads" in problem.what
    assert "ulimit" in problem.hint


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("/data/t-0: Permission denied", "check the permissions"),
        ("/data/t-0: Too many open files", "ulimit -n"),
        ("the journal's record 9, at byte 1062, is damaged or missing", "empty directory"),
        ("/data/t-0: partition.json: not a partition document", "if other replicas have"),
        ("/data/t-0: partition.json: [Errno 2] No such file or directory", "folder away"),
        ("/data/t-0/partition.json: Permission denied", "check the permissions"),
        ("/data/meta.json: Permission denied", "check the permissions"),
        ("/data/meta.json: not a document", "put that file back"),
    ],
)
def test_directories_that_cannot_be_used_come_with_advice(text: str, hint: str) -> None:
    assert hint in explain(DirectoryError(text)).hint
