"""Filters, orders, widths; what is different between two tables."""

import pytest

from quorate.tools.tui.views.cells import Cell, Column, Frame, Row, number_cell, text_cell
from quorate.tools.tui.views.lens import Lens, PatternError, Shown, look
from quorate.tools.tui.views.updating import changed_rows, cursor_after, is_laid_out_alike

COLUMNS = (
    Column("name", shrinks=True), Column("size", is_number=True, falls=True),
    Column("state"), Column("topic_id", wide_only=True),
)  # fmt: skip


def row(name: str, size: int | None, state: str = "ok") -> Row:
    cells = (text_cell(name), number_cell(size), text_cell(state), text_cell(f"id-of-{name}"))
    return Row(name, cells, name)


FRAME = Frame("things", COLUMNS, (row("orders", 20), row("Clicks", None, "bad"), row("users", 3)))


def keys(lens: Lens, frame: Frame = FRAME) -> list[str]:
    return [row.key for row in look(frame, lens, 80).rows]


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("", ["orders", "Clicks", "users"]),
        ("ers$", ["orders", "users"]),
        ("clicks", ["Clicks"]),
        ("CLICKS", []),
        ("!ers", ["Clicks"]),
        ("!", ["orders", "Clicks", "users"]),
        ("state:bad", ["Clicks"]),
        ("!state:bad", ["orders", "users"]),
        ("topic id:users", ["users"]),
        ("size:^2", ["orders"]),
        ("no:such", []),
    ],
)
def test_a_filter_is_an_expression_turned_round_or_of_a_column(
    pattern: str, found: list[str]
) -> None:
    assert keys(Lens(pattern)) == found


def test_a_filter_that_is_no_expression_says_why() -> None:
    with pytest.raises(PatternError, match="unterminated"):
        look(FRAME, Lens("[a"), 80)


def test_what_has_nothing_in_a_column_comes_last_whichever_way_it_goes() -> None:
    assert keys(Lens(sort="size")) == ["users", "orders", "Clicks"]
    assert keys(Lens(sort="size", falling=True)) == ["orders", "users", "Clicks"]
    assert keys(Lens(sort="name")) == ["Clicks", "orders", "users"]
    assert keys(Lens(sort="nonesuch")) == ["orders", "Clicks", "users"]


def test_asking_for_an_order_again_turns_it_round() -> None:
    by_size = Lens().sorted_by(COLUMNS[1])
    assert (by_size.sort, by_size.falling) == ("size", True)
    assert by_size.sorted_by(COLUMNS[1]).falling is False
    assert look(FRAME, by_size, 80).headings[1] == "SIZE↓"


def test_columns_for_wide_screens_appear_where_there_is_room() -> None:
    assert [c.name for c in look(FRAME, Lens(), 80).columns] == [
        "name",
        "size",
        "state",
        "topic_id",
    ]
    assert [c.name for c in look(FRAME, Lens(), 30).columns] == ["name", "size", "state"]
    assert len(look(FRAME, Lens(wide=True), 30).columns) == 4
    assert "topic_id" in [c.name for c in look(FRAME, Lens(sort="topic_id"), 30).columns]


def test_texts_give_way_where_the_screen_is_narrow() -> None:
    frame = Frame("things", COLUMNS, (row("a" * 50, 1),))
    shown = look(frame, Lens(), 40)
    assert sum(shown.widths) + 2 * len(shown.widths) == 40
    assert look(frame, Lens(), 10).widths[0] == 8
    assert look(frame, Lens(wide=True), 40).widths[0] == 50


def test_the_widest_of_several_texts_gives_way_first() -> None:
    columns = (Column("a", shrinks=True), Column("b", shrinks=True))
    frame = Frame("x", columns, (Row("r", (text_cell("x" * 40), text_cell("y" * 12)), None),))
    assert look(frame, Lens(), 36).widths == (20, 12)
    assert look(frame, Lens(), 24).widths == (8, 12) or sum(look(frame, Lens(), 24).widths) == 20


def test_an_empty_table_says_why_it_is_empty() -> None:
    assert look(Frame("x", COLUMNS, (), "none yet"), Lens("a"), 80).remark == "none yet"
    assert look(FRAME, Lens("nothing"), 80).remark == "nothing matches nothing"


# Updates


def shown(*rows: Row) -> Shown:
    return look(Frame("x", COLUMNS, rows), Lens(), 80)


def test_only_rows_that_look_different_are_drawn() -> None:
    before = shown(row("a", 1), row("b", 2), row("c", 3))
    after = shown(row("a", 1), row("b", 5), row("d", 3))
    assert is_laid_out_alike(before, after)
    assert changed_rows(before, after, 0, 10) == [1, 2]
    assert changed_rows(before, after, 2, 10) == [2]
    assert not is_laid_out_alike(None, after)
    assert not is_laid_out_alike(before, shown(row("a", 1)))


def test_the_cursor_goes_with_its_row() -> None:
    rows = [row("b", 1), row("a", 1), row("c", 1)]
    assert cursor_after(rows, "a", 0) == 1
    assert cursor_after(rows, "c", 2) == 2
    assert cursor_after(rows, "gone", 2) == 2
    assert cursor_after(rows, "gone", 9) == 2
    assert cursor_after([], "gone", 3) == 0


def test_cells_of_wide_characters_are_measured_as_they_are_shown() -> None:
    frame = Frame("x", (Column("name"),), (Row("r", (Cell("日本"),), None),))
    assert look(frame, Lens(), 80).widths == (4,)
