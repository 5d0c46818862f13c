"""What a person is told when something fails: what, why, what to try; and the exit code."""

import errno
import os
import re
from collections.abc import Iterator
from typing import Final

from quorate.dataclass import dataclass
from quorate.errors import MEANINGS, ErrorCode, KafkaError, QuorateError
from quorate.tools.output import harmless

EXIT_OK: Final = 0
EXIT_FAILED: Final = 1
EXIT_USAGE: Final = 2
EXIT_PROBLEM_FOUND: Final = 3
EXIT_UNREACHABLE: Final = 4
EXIT_REFUSED: Final = 5
EXIT_INTERRUPTED: Final = 130
"""After Ctrl-C, as shells have it."""

_ADVICE: Final = re.compile(r"; try |\. [A-Z][^.?]*\? Try ")
"""How messages of the client lead over to what a person may try."""

UNREACHABLE: Final = frozenset({ErrorCode.NETWORK_EXCEPTION, ErrorCode.REQUEST_TIMED_OUT})

HINTS: Final = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "quorate topics list",
    ErrorCode.UNKNOWN_TOPIC_ID: "quorate topics list --format wide",
    ErrorCode.TOPIC_ALREADY_EXISTS: "add --if-not-exists, or look with: quorate topics describe",
    ErrorCode.INVALID_TOPIC_EXCEPTION: (
        "use letters, digits, '.', '_' and '-', at most 249 of them; '.' and '_' count as the same"
    ),
    ErrorCode.INVALID_PARTITIONS: "another number; quorate topics describe tells the present one",
    ErrorCode.INVALID_RECORD: "quorate configs describe topic/NAME tells what the topic takes",
    ErrorCode.INVALID_REPLICATION_FACTOR: "ask for no more replicas than there are brokers: -r 1",
    ErrorCode.INVALID_CONFIG: "correct the name or the value",
    ErrorCode.OFFSET_OUT_OF_RANGE: "quorate offsets tells the first and the next offset",
    ErrorCode.NON_EMPTY_GROUP: "stop its members first, or: quorate groups kick GROUP --all",
    ErrorCode.GROUP_ID_NOT_FOUND: "quorate groups list",
    ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC: "stop its members first",
    ErrorCode.COORDINATOR_NOT_AVAILABLE: "wait: the group's coordinator is being elected",
    ErrorCode.MESSAGE_TOO_LARGE: "quorate configs set topic/NAME max.message.bytes=...",
    ErrorCode.NETWORK_EXCEPTION: "is a node running there? quorate up starts one",
    ErrorCode.REQUEST_TIMED_OUT: "wait longer with --timeout, or look at the node's output",
    ErrorCode.KAFKA_STORAGE_ERROR: "look at the node's disk: space, permissions, its log",
    ErrorCode.NOT_ENOUGH_REPLICAS: "start the missing brokers, or lower min.insync.replicas",
    ErrorCode.DUPLICATE_BROKER_REGISTRATION: "give every broker another -X node.id=...",
    ErrorCode.INCONSISTENT_CLUSTER_ID: "use another --dir, or the cluster that the data belongs to",
    ErrorCode.UNSUPPORTED_VERSION: "the other side is too old or too new for this",
}


_OTHER_RELEASE: Final = "the release of Quorate that wrote it, or another --dir"

_TEXT_HINTS: Final = {
    "cannot listen on": "another port: --port N, or --port 0 for any",
    "has format": _OTHER_RELEASE,
    " of version ": _OTHER_RELEASE,  # a document's; before the name of its file
    ": partition.json: ": "put that file back; or, if other replicas have its records, move the"
    " partition's folder away",
    "cannot use ": "check that path and its permissions, or use another --dir",
    "in use by": "stop that process, or use another --dir",
    "the journal's record": "put the file back; or, if other controllers have the metadata,"
    " let this one join them with an empty directory",
    "belongs to cluster": "use another --dir, or the cluster that the data belongs to",
    "belongs to node": "the node.id that the data belongs to, or another --dir",
}

_FILE_HINTS: Final = {"meta.json": "put that file back, or use another --dir"}
"""For files of which the system has nothing to say."""

_STARVED: Final = ("can't start new thread", "failed to map segment")
"""What Python says of a limit on processes or memory."""

_SYSTEM_HINTS: Final = {
    errno.ENOENT: "check the path",
    errno.ENOTDIR: "check the path",
    errno.EISDIR: "name a file in it",
    errno.EACCES: "check the permissions, or run it as another user",
    errno.EPERM: "check the permissions, or run it as another user",
    errno.EROFS: "another place",
    errno.ENAMETOOLONG: "a shorter name",
    errno.ENOSPC: "make room on the disk, or another place",
    errno.EMFILE: "raise the limit of open files: ulimit -n",
}


@dataclass(frozen=True, slots=True)
class Problem:
    """What a person reads, one line each, and the exit code."""

    what: str
    why: str
    hint: str
    exit_code: int

    def lines(self) -> list[str]:
        """Return the lines to print; what is empty is left out."""
        texts = (("error", self.what), ("why", self.why), ("try", self.hint))
        return [f"{label:>5}: {_one_line(text)}" for label, text in texts if text]


class CommandError(QuorateError):
    """A command cannot do what it was asked to."""

    exit_code = EXIT_FAILED

    def __init__(self, what: str, *, why: str, hint: str) -> None:
        self.what = what
        self.why = why
        self.hint = hint
        super().__init__(f"{what}: {why}")


class UsageError(CommandError):
    """The command line is wrong."""

    exit_code = EXIT_USAGE


class ProblemFoundError(CommandError):
    """What was looked at is not as it should be."""

    exit_code = EXIT_PROBLEM_FOUND


class UnreachableError(CommandError):
    """Nobody answers."""

    exit_code = EXIT_UNREACHABLE


class RefusedError(CommandError):
    """It was not done, because it would not be safe."""

    exit_code = EXIT_REFUSED


def leaf_errors(error: BaseException) -> Iterator[BaseException]:
    """Yield the errors inside nested groups; an error that is no group, itself."""
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
            yield from leaf_errors(inner)  # pyright: ignore[reportUnknownArgumentType]
    else:
        yield error


def root_error(error: BaseException) -> BaseException:
    """Return the error of a group that tells most: an interruption, ours, the system's, any."""
    leaves = list(leaf_errors(error))
    # One of ours without words says only that something else ended it.
    telling = [leaf for leaf in leaves if str(leaf) or not isinstance(leaf, QuorateError)]
    for kind in (KeyboardInterrupt, CommandError, KafkaError, QuorateError, OSError, Exception):
        for leaf in telling:
            if isinstance(leaf, kind):
                return leaf
    return leaves[0]


def explain(error: BaseException) -> Problem:
    """Say what happened, why, and what to try."""
    match root_error(error):
        case CommandError() as known:
            return Problem(known.what, known.why, known.hint, known.exit_code)
        case KafkaError() as kafka:
            return _explain_kafka(kafka)
        case QuorateError() as ours if str(ours):  # those without words are for our own eyes
            # Some have no words, because somebody catches them: that it came here is worth telling.
            what = str(ours) or f"this is a bug in Quorate: {type(ours).__name__} was not caught"
            return Problem(what, "", _hint_for_text(str(ours)), EXIT_FAILED)
        case OSError() as system:
            return _explain_system(system)
        case other if _is_starved(other):
            return Problem(
                "the system gives this process no more memory, or no more threads",
                str(other),
                "raise its limits: ulimit -v, ulimit -u, the memory of its container",
                EXIT_FAILED,
            )
        case other:
            return Problem(
                f"this is a bug in Quorate: {type(other).__name__}",
                str(other) or "no further message",
                "run it again with --debug and report what it prints",
                EXIT_FAILED,
            )


def _is_starved(error: BaseException) -> bool:
    return isinstance(error, MemoryError) or any(words in str(error) for words in _STARVED)


def _explain_kafka(error: KafkaError) -> Problem:
    exit_code = EXIT_UNREACHABLE if error.code in UNREACHABLE else EXIT_FAILED
    meaning = MEANINGS[error.code]
    why = error.code.name if error.message.endswith(meaning) else f"{error.code.name}: {meaning}"
    what, advice = _split_advice(error.message)
    return Problem(what, why, advice or HINTS.get(error.code, ""), exit_code)


def _split_advice(message: str) -> tuple[str, str]:
    """Return a message without the advice at its end, and the advice."""
    match = _ADVICE.search(message)
    return (message, "") if match is None else (message[: match.start()], message[match.end() :])


def _explain_system(error: OSError) -> Problem:
    name = f"{error.filename}: " if error.filename else ""
    hint = _SYSTEM_HINTS.get(error.errno or 0, "")
    why = "" if type(error) is OSError else type(error).__name__
    return Problem(f"{name}{error.strerror or error}", why, hint, EXIT_FAILED)


def _hint_for_text(text: str) -> str:
    """Return advice for errors that have no code."""
    by_system = {os.strerror(code): hint for code, hint in _SYSTEM_HINTS.items()}
    hints = {**_TEXT_HINTS, **by_system, **_FILE_HINTS}
    return next((hint for words, hint in hints.items() if words in text), "")


def _one_line(text: str) -> str:
    return harmless(" ".join(text.split()))
