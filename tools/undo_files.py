"""Where it is kept what a group's offsets were: in the user's state directory, newest first."""

import hashlib
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import quote

from quorate.tools.groups.undoing import Before, decode_before, encode_before
from quorate.tools.problems import CommandError
from quorate.tools.whole_files import replace_file

KEPT_MAX = 50
NAME_CHARACTERS_MAX = 200


def state_directory(environment: Mapping[str, str]) -> Path:
    """Return where programs of this user keep what should outlast them (XDG)."""
    home = environment.get("XDG_STATE_HOME", "")
    return Path(home) / "quorate" if home else Path.home() / ".local" / "state" / "quorate"


class UndoFiles:
    """The files about one group of one cluster; the last 50 changes are kept."""

    def __init__(self, state: Path, cluster_id: str, group_id: str) -> None:
        self._folder = state / "group-offsets" / _file_name(cluster_id) / _file_name(group_id)

    def keep(self, before: Before) -> None:
        """Write what there was before a change, so that it can be undone.

        Raises:
            CommandError: It cannot be written.
        """
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            path = self._folder / f"{before.time_ms:015d}.json"
            replace_file(path, encode_before(before))
            for old in self._paths()[KEPT_MAX:]:
                old.unlink()
        except OSError as error:
            raise CommandError(
                "what there is now cannot be kept, so it could not be undone; nothing was done",
                why=f"{error.filename}: {error.strerror}",
                hint="set XDG_STATE_HOME, or go ahead with --no-undo",
            ) from None

    def read(self) -> list[Before]:
        """Return what can be undone, the last first.

        Raises:
            CommandError: A file is not readable.
        """
        found: list[Before] = []
        for path in self._paths():
            try:
                found.append(decode_before(path.read_text(encoding="utf-8")))
            except (OSError, ValueError) as error:
                raise CommandError(
                    f"cannot read {path}", why=str(error), hint="delete that file"
                ) from None
        return found

    def forget(self, before: Before) -> None:
        """Remove what was undone."""
        (self._folder / f"{before.time_ms:015d}.json").unlink(missing_ok=True)

    def _paths(self) -> list[Path]:
        return sorted(self._folder.glob("*.json"), reverse=True)


def _file_name(text: str) -> str:
    """Return a name for a folder that says which group it is of, as far as file names can."""
    quoted = quote(text, safe="")
    if len(quoted) > NAME_CHARACTERS_MAX or quoted.startswith("."):
        return hashlib.sha256(text.encode()).hexdigest()
    return quoted
