"""The state of windows: what is told, what is kept, and that a changelog brings it back."""

from collections import defaultdict
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.client.streams.store import (
    STREAM_TIME_KEY,
    Aggregation,
    ChangelogError,
    Place,
    WindowStore,
    changelog_key,
)
from quorate.client.streams.windows import TimeWindows


def counting(windows: TimeWindows, *, on_close: bool = False) -> WindowStore:
    def fold(_key: Any, _value: Any, count: int) -> int:
        return count + 1

    return WindowStore(
        Aggregation(windows, on_close, lambda: 0, fold, lambda count: b"%d" % count, int)
    )


TUMBLING = TimeWindows(size_ms=10, grace_ms=5)


def take(store: WindowStore, *times: int, key: bytes = b"k") -> list[bool]:
    return [store.take(key, key, None, at) for at in times]


def told(store: WindowStore) -> list[tuple[int, bytes, int]]:
    return [(t.place.start_ms, t.place.key, t.summed.value) for t in store.changes().told]


def test_a_window_that_changed_tells_its_value_once_a_commit() -> None:
    store = counting(TUMBLING)
    assert take(store, 1, 2, 12) == [True, True, True]
    assert told(store) == [(0, b"k", 2), (10, b"k", 1)]
    store.commit()
    assert told(store) == []
    take(store, 3)
    assert told(store) == [(0, b"k", 3)]


def clearing(*, on_close: bool = False) -> WindowStore:
    """Return a store that keeps texts, and of which a record "clear" removes a window."""

    def fold(_key: Any, value: str, text: str) -> str | None:
        return None if value == "clear" else text + value

    return WindowStore(
        Aggregation(TUMBLING, on_close, lambda: ">", fold, lambda text: text.encode(), bytes.decode)
    )


@pytest.mark.parametrize("commits_between", [False, True])
def test_a_value_of_none_removes_a_window_and_the_next_record_begins_it_anew(
    commits_between: bool,
) -> None:
    store, copy = clearing(), clearing()
    written: list[tuple[bytes, bytes | None]] = []

    def commit() -> list[Any]:
        changes = store.changes()
        store.commit()
        written.extend(changes.changelog)
        return [(t.summed.timestamp_ms, t.summed.value) for t in changes.told]

    store.take(b"k", "k", "a", 9)
    assert commit() == [(9, ">a")]
    store.take(b"k", "k", "clear", 2)
    if commits_between:
        assert commit() == [(9, None)]
        assert store.window_count == 0
        assert written[-1] == (changelog_key(Place(0, b"k")), None)
    store.take(b"k", "k", "b", 3)
    assert commit() == [(3, ">b")]
    store.take(b"k", "k", "clear", 4)
    commit()
    for key, value in written:
        copy.replay(key, value)
    assert copy.window_count == store.window_count == 0


def test_what_begins_with_none_was_never_there() -> None:
    store = clearing()
    store.take(b"k", "k", "clear", 1)
    changes = store.changes()
    assert changes.changelog == [(STREAM_TIME_KEY, (1).to_bytes(8, "big"))]
    assert [t.summed.value for t in changes.told] == [None]
    store.commit()
    assert store.window_count == 0


def test_a_window_that_was_removed_tells_nothing_when_it_is_closed() -> None:
    store = clearing(on_close=True)
    store.take(b"k", "k", "a", 1)
    store.take(b"l", "l", "a", 1)
    store.changes()
    store.commit()
    store.take(b"k", "k", "clear", 2)
    store.take(b"k", "k", "a", 30)
    assert [(t.place.key, t.summed.value) for t in store.changes().told] == [(b"l", ">a")]


def test_the_time_of_a_value_is_the_latest_of_its_records() -> None:
    store = counting(TUMBLING)
    take(store, 7, 3)
    (only,) = store.changes().told
    assert only.summed.timestamp_ms == 7


def test_a_record_within_the_grace_counts_and_a_later_one_does_not() -> None:
    store = counting(TUMBLING)
    assert take(store, 1, 14, 2, 15, 3) == [True, True, True, True, False]
    assert told(store) == [(0, b"k", 2), (10, b"k", 2)]


def test_a_record_may_be_late_for_some_of_its_windows_only() -> None:
    store = counting(TimeWindows(size_ms=10, grace_ms=0, advance_ms=5))
    assert take(store, 20, 14, 4) == [True, False, False]
    assert take(store, 16) == [True]
    assert told(store) == [(15, b"k", 2), (20, b"k", 1)]


def test_on_close_a_window_tells_its_value_once_and_is_forgotten() -> None:
    store = counting(TUMBLING, on_close=True)
    take(store, 1, 2)
    assert told(store) == []
    store.commit()
    assert store.window_count == 1
    take(store, 15, key=b"other")
    assert told(store) == [(0, b"k", 2)]
    changes = store.changes()
    assert (changelog_key(Place(0, b"k")), None) in changes.changelog
    store.commit()
    assert told(store) == []
    assert store.window_count == 1


def test_on_close_a_window_that_opened_and_closed_between_two_commits_tells_its_value() -> None:
    store = counting(TUMBLING, on_close=True)
    take(store, 1, 2, 40)
    assert told(store) == [(0, b"k", 2)]
    assert [key for key, _ in store.changes().changelog] == [
        STREAM_TIME_KEY,
        changelog_key(Place(40, b"k")),
    ]


def test_what_is_aborted_never_was() -> None:
    store = counting(TUMBLING)
    take(store, 1)
    store.commit()
    take(store, 2, 100)
    store.abort()
    assert store.stream_time_ms == 1
    assert store.changes().changelog == []
    take(store, 3)
    assert told(store) == [(0, b"k", 2)]


@pytest.mark.parametrize(
    ("key", "value"),
    [(STREAM_TIME_KEY, None), (STREAM_TIME_KEY, b"1"), (b"short", b""), (b"12345678", b"1")],
)
def test_a_changelog_of_somebody_else_is_refused(key: bytes, value: bytes | None) -> None:
    with pytest.raises(ChangelogError, match="a changelog has the key"):
        counting(TUMBLING).replay(key, value)


def test_of_a_window_only_the_key_is_removed_that_the_changelog_says() -> None:
    store = counting(TUMBLING)
    for key in (b"k", b"other"):
        store.replay(changelog_key(Place(0, key)), bytes(8) + b"2")
    store.replay(changelog_key(Place(0, b"other")), None)
    assert store.window_count == 1
    take(store, 1)
    take(store, 1, key=b"other")
    assert told(store) == [(0, b"k", 3), (0, b"other", 1)]


def test_a_window_that_is_not_there_may_be_removed() -> None:
    store = counting(TUMBLING)
    store.replay(changelog_key(Place(0, b"k")), None)
    assert store.window_count == 0


@dataclass(frozen=True)
class Case:
    windows: TimeWindows
    on_close: bool
    steps: list[tuple[str, Any]]


RECORD = st.tuples(st.just("record"), st.tuples(st.sampled_from(b"ab"), st.integers(0, 120)))
STEP = st.one_of(
    RECORD, RECORD, RECORD, st.tuples(st.sampled_from(["commit", "abort", "crash"]), st.none())
)


@st.composite
def cases(draw: st.DrawFn) -> Case:
    size = draw(st.integers(1, 30))
    advance = draw(st.integers(0, size))
    windows = TimeWindows(
        size_ms=size, grace_ms=draw(st.integers(0, 20)), advance_ms=max(advance, size // 5)
    )
    return Case(windows, draw(st.booleans()), draw(st.lists(STEP, max_size=40)))


def reference(
    windows: TimeWindows, records: list[tuple[bytes, int]]
) -> tuple[dict[Place, int], int]:
    """Count records as one reads the rules, all in one go."""
    counts: dict[Place, int] = defaultdict(int)
    latest = -1
    for key, at in records:
        latest = max(latest, at)
        for start in windows.starts(at):
            if start + windows.size_ms + windows.grace_ms > latest:
                counts[Place(start, key)] += 1
    return dict(counts), latest


@given(cases())
def test_commits_aborts_and_crashes_make_no_difference_to_what_is_counted(case: Case) -> None:
    store = counting(case.windows, on_close=case.on_close)
    log: dict[bytes, bytes | None] = {}
    said: list[tuple[Place, int]] = []
    done: list[tuple[bytes, int]] = []
    pending: list[tuple[bytes, int]] = []
    steps: list[tuple[str, Any]] = [*case.steps, ("commit", None)]
    for what, given_ in steps:
        if what == "record":
            key, at = bytes([given_[0]]), given_[1]
            store.take(key, key, None, at)
            pending.append((key, at))
            continue
        if what == "commit":
            changes = store.changes()
            log.update(changes.changelog)
            said += [(each.place, each.summed.value) for each in changes.told]
            store.commit()
            done += pending
        elif what == "abort":
            store.abort()
        else:
            store = counting(case.windows, on_close=case.on_close)
            for key, value in log.items():
                store.replay(key, value)
        pending.clear()
    counts, latest = reference(case.windows, done)
    still_open = {p: n for p, n in counts.items() if case.windows.is_open(p.start_ms, latest)}
    assert store.stream_time_ms == latest
    assert store.window_count == len(still_open), "what is closed is dropped"
    kept = {key for key, value in log.items() if value is not None} - {STREAM_TIME_KEY}
    assert kept == {changelog_key(place) for place in still_open}
    if case.on_close:
        assert len(said) == len(dict(said)), "a window tells its value once"
        assert dict(said) == {p: n for p, n in counts.items() if p not in still_open}
    else:
        assert dict(said) == counts
