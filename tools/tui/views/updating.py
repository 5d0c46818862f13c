"""What is different between two tables on the screen: only those lines are drawn anew."""

from collections.abc import Sequence

from quorate.tools.tui.views.cells import Row
from quorate.tools.tui.views.lens import Shown


def is_laid_out_alike(before: Shown | None, after: Shown) -> bool:
    """Whether two tables have the same columns in the same places, and as many rows."""
    return before is not None and (
        before.columns == after.columns
        and before.widths == after.widths
        and before.headings == after.headings
        and len(before.rows) == len(after.rows)
        and before.remark == after.remark
    )


def changed_rows(before: Shown, after: Shown, first: int, last: int) -> list[int]:
    """Return which of the rows from ``first`` to before ``last`` look different now."""
    return [
        first + i
        for i, (old, new) in enumerate(
            zip(before.rows[first:last], after.rows[first:last], strict=True)
        )
        if old.cells != new.cells or old.key != new.key
    ]


def cursor_after(rows: Sequence[Row], key: str | None, was_at: int) -> int:
    """Return where the cursor goes when other rows are there: with its row, or where it was."""
    if was_at < len(rows) and rows[was_at].key == key:
        return was_at
    at = next((i for i, row in enumerate(rows) if row.key == key), was_at)
    return max(0, min(at, len(rows) - 1))
