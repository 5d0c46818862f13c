"""Large immutable maps behave as dicts do, share what did not change, and keep their order."""

import subprocess
import sys

from hypothesis import given
from hypothesis import strategies as st

from quorate.quorum.metadata.sharded import DictDraft, ShardedDraft, ShardedMap, place

OPERATIONS = st.lists(
    st.tuples(st.sampled_from("abcdefgh"), st.one_of(st.none(), st.integers())), max_size=30
)


def changed(
    base: ShardedMap[str, int], operations: list[tuple[str, int | None]]
) -> ShardedDraft[str, int]:
    draft = ShardedDraft(base)
    for key, value in operations:
        if value is None:
            draft.discard(key)
        else:
            draft[key] = value
    return draft


@given(OPERATIONS, OPERATIONS)
def test_it_behaves_as_a_dict_does(
    first: list[tuple[str, int | None]], second: list[tuple[str, int | None]]
) -> None:
    expected: dict[str, int] = {}
    image: ShardedMap[str, int] = ShardedMap()
    small = DictDraft[str, int]({})
    for operations in (first, second):
        before, was = image, dict(expected)
        draft = changed(image, operations)
        small = DictDraft(small.finish())
        for key, value in operations:
            if value is None:
                expected.pop(key, None)
                small.discard(key)
            else:
                expected[key] = value
                small[key] = value
        assert all(draft.get(key) == expected.get(key) == small.get(key) for key in "abcdefgh")
        image = draft.finish()
        assert before == was, "what there was stays as it was"
        assert small.finish() == expected
        different = {k for k in "abcdefgh" if was.get(k) != expected.get(k)}
        assert different <= draft.touched <= {key for key, _ in operations}
        assert different <= small.touched
    assert image == expected
    assert dict(image.items()) == expected
    assert sorted(image.values()) == sorted(expected.values())
    assert list(image) == [key for key, _ in image.items()]
    assert len(image) == len(expected)
    assert all((key in image) == (key in expected) for key in "abcdefgh")
    assert [image.get(key, -1) for key in "abcdefgh"] == [expected.get(k, -1) for k in "abcdefgh"]
    assert [image[key] for key in expected] == list(expected.values())
    assert repr(image) == repr(dict(image))


def test_what_does_not_change_is_shared() -> None:
    base = changed(ShardedMap(), [(str(n), n) for n in range(1000)]).finish()
    assert changed(base, []).finish() is base
    assert changed(base, [("unknown", None)]).finish() is base
    after = changed(base, [("7", None)]).finish()
    shared = [a is b for a, b in zip(base.shards, after.shards, strict=True)]
    assert shared.count(False) == 1
    same = {"a": 1}
    assert DictDraft(same).finish() is same


def test_all_processes_agree_on_the_order() -> None:
    code = (
        "from quorate.quorum.metadata.sharded import place;"
        "print([place(k) for k in ('a', b'a', ('topic', 'a'), ('broker', 'a'))])"
    )
    command = [sys.executable, "-c", code]
    said = {
        subprocess.run(
            command, env={"PYTHONHASHSEED": seed}, check=True, capture_output=True, text=True
        ).stdout
        for seed in ("1", "2")
    }
    keys: list[str | bytes | tuple[str, str]] = ["a", b"a", ("topic", "a"), ("broker", "a")]
    assert said == {f"{[place(key) for key in keys]}\n"}
