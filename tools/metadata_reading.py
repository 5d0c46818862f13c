"""Where metadata comes from, controllers that run or a directory, and how a person sees it."""

import json
import ssl
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from quorate.control.messages import NO_NODE, DescribeQuorum, DescribeQuorumAnswer
from quorate.dataclass import dataclass
from quorate.errors import KafkaError
from quorate.model import Endpoint
from quorate.quorum.metadata.image import EMPTY_IMAGE, MetadataImage
from quorate.tools.arguments import GlobalOptions
from quorate.tools.controllers import ask_once
from quorate.tools.metadata.decided import HEADING, Batch, Decided, Filter, Reader, plain
from quorate.tools.metadata.directory import batches_of, controller_folder
from quorate.tools.metadata.exported import read_exported
from quorate.tools.metadata.tree import Folder, root_of
from quorate.tools.metadata_feed import follow_feed, read_feed
from quorate.tools.session import note, run

if TYPE_CHECKING:
    from quorate.tools.metadata.browser import Browser


@dataclass(frozen=True, slots=True)
class Directory:
    """A controller's directory."""

    path: Path

    def read(self, take: Callable[[Batch], None]) -> None:
        """Hand over all batches that it holds."""
        for batch in batches_of(controller_folder(self.path)):
            take(batch)

    def quorum(self) -> Mapping[str, Any] | None:
        """Return nothing: who leads is not written down."""
        return None


@dataclass(frozen=True, slots=True)
class Controllers:
    """Controllers that run."""

    endpoints: Sequence[Endpoint]
    timeout_s: float
    tls: ssl.SSLContext | None

    def read(self, take: Callable[[Batch], None]) -> None:
        """Hand over all batches that are committed."""
        run(read_feed, self.endpoints, self.timeout_s, take, self.tls)

    def quorum(self) -> Mapping[str, Any] | None:
        """Return how the quorum is."""
        request = DescribeQuorum(local=True)
        answer: DescribeQuorumAnswer = run(
            ask_once, self.endpoints, request, self.timeout_s, self.tls
        )
        return _quorum_values(answer)


@dataclass(frozen=True, slots=True)
class File:
    """A file of ``quorate metadata export``."""

    path: Path

    def read(self, take: Callable[[Batch], None]) -> None:
        """Hand over what it holds, as a snapshot."""
        image = read_exported(self.path).image
        take(Batch(image.version, None, image=image))

    def quorum(self) -> Mapping[str, Any] | None:
        """Return nothing: who leads is not exported."""
        return None


Source = Directory | Controllers | File


def _quorum_values(answer: DescribeQuorumAnswer) -> dict[str, Any]:
    def replica_values(replica: Any) -> dict[str, Any]:
        return {
            "directory_id": plain(replica.directory_id),
            "endpoint": plain(replica.endpoint),
            "log_end_offset": replica.log_end_offset,
        }

    return {
        "leader_id": None if answer.leader_id == NO_NODE else answer.leader_id,
        "leader_epoch": answer.leader_epoch,
        "high_watermark": answer.high_watermark,
        "voters": {voter.node_id: replica_values(voter) for voter in answer.voters},
        "observers": {observer.node_id: replica_values(observer) for observer in answer.observers},
    }


def print_records(
    options: GlobalOptions, source: Source, wanted: Filter, out: TextIO, *, follow: bool
) -> None:
    """Print the records of a source that are wanted, one a line; with ``follow`` for ever.

    Raises:
        QuorateError: there is no source, it is damaged, or it does not answer.
    """
    printer = Printer(options, wanted, out)
    if not follow:
        source.read(printer.take)
        return
    assert isinstance(source, Controllers), "only what runs has more to tell"

    def tell(error: KafkaError) -> None:
        note(options, f"waiting for a controller: {error.message}")

    run(follow_feed, source.endpoints, printer.take, tell, source.tls)


class Printer:
    """Prints batches as they come."""

    def __init__(self, options: GlobalOptions, wanted: Filter, out: TextIO) -> None:
        self._as_json = options.format not in {"table", "wide"}
        self._wanted = wanted
        self._out = out
        self._reader = Reader()
        self._needs_heading = not self._as_json and not options.quiet

    def take(self, batch: Batch) -> None:
        """Print those records of the next batch that are wanted."""
        for decided in self._reader.read(batch):
            if self._wanted.wants(decided):
                self._print(decided)
        self._out.flush()

    def _print(self, decided: Decided) -> None:
        if self._needs_heading:
            self._out.write(HEADING + "\n")
            self._needs_heading = False
        if self._as_json:
            self._out.write(json.dumps(decided.fields(), ensure_ascii=False) + "\n")
        else:
            self._out.write(decided.line() + "\n")


def read_root(source: Source) -> Folder:
    """Return the tree of what a source holds now."""
    image: MetadataImage = EMPTY_IMAGE

    def take(batch: Batch) -> None:
        nonlocal image
        image = batch.applied_to(image)

    source.read(take)
    return root_of(image, source.quorum())


def read_batches(source: Source) -> list[Batch]:
    """Return all batches that a source still has, oldest first."""
    batches: list[Batch] = []
    source.read(batches.append)
    return batches


def read_records(source: Source) -> Iterator[Decided]:
    """Yield all records that a source still has, oldest first."""
    reader = Reader()
    batches: list[Batch] = []
    source.read(batches.append)
    for batch in batches:
        yield from reader.read(batch)


def browse(browser: "Browser", *, interactive: bool) -> None:
    """Let somebody type commands until they leave."""
    from quorate.tools.metadata.browser import BrowseError

    if interactive:
        _set_up_completion(browser)
    while True:
        try:
            line = input(browser.prompt) if interactive else next(sys.stdin)
            for text in browser.run_line(line):
                print(text)
        except (EOFError, StopIteration):
            break
        except KeyboardInterrupt:
            print()
        except BrowseError as error:
            print(error, file=sys.stderr)
    if interactive:
        print()


def _set_up_completion(browser: "Browser") -> None:
    """Complete names with the tab key, where Python has readline."""
    try:
        import readline
    except ImportError:
        return
    found: list[str] = []

    def complete(word: str, index: int) -> str | None:
        if index == 0:
            found[:] = browser.complete(readline.get_line_buffer(), word)
        return found[index] if index < len(found) else None

    readline.set_completer(complete)
    readline.set_completer_delims(" \t")
    readline.parse_and_bind("tab: complete")
