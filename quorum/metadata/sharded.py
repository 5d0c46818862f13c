"""An immutable map for very many entries: the next one shares with it all but what changed.

A dict would be copied whole for every change: 2 ms for a hundred thousand topics. The hash tries of
the usual libraries change faster still, but go through their entries in another order in every
process, and what is made of metadata (snapshots, decisions) should be the same everywhere.
"""

from collections.abc import ItemsView, Iterator, Mapping, Sequence, ValuesView
from functools import lru_cache
from itertools import chain
from typing import Final, Generic, NamedTuple, TypeVar, cast, overload
from zlib import crc32

PLACES_KEPT: Final = 4096

SHARDS: Final = 256
"""A change copies one shard and the list of them: cheapest when both are about as long."""

K = TypeVar("K", bound=str | bytes | tuple[str, str])
H = TypeVar("H")
V = TypeVar("V")
D = TypeVar("D")


class Encoded(NamedTuple, Generic[V]):
    """A value, and what was made of it once."""

    value: V
    data: bytes


class Shard(Generic[K, V]):
    """Some entries that never change.

    ``encoded`` is for who makes bytes of them: it is shared with the shards before and after this
    one, so it may hold other values of a key than this one, and keys that this one has not.
    """

    __slots__ = ("encoded", "entries")

    def __init__(self, entries: dict[K, V], encoded: dict[K, Encoded[V]]) -> None:
        self.entries = entries
        self.encoded = encoded


class ShardedMap(Mapping[K, V]):
    """Never changes: :class:`ShardedDraft` makes the next one."""

    __slots__ = ("shards",)

    def __init__(self, shards: Sequence[Shard[K, V]] | None = None) -> None:
        self.shards: Sequence[Shard[K, V]] = shards or tuple(
            Shard[K, V]({}, {}) for _ in range(SHARDS)
        )

    def __getitem__(self, key: K) -> V:
        return self.shards[place(key)].entries[key]

    @overload
    def get(self, key: K, default: None = None, /) -> V | None: ...
    @overload
    def get(self, key: K, default: V | D, /) -> V | D: ...

    def get(self, key: K, default: V | D | None = None, /) -> V | D | None:
        """Return the value of a key, or the default."""
        return self.shards[place(key)].entries.get(key, default)

    def __contains__(self, key: object) -> bool:
        return key in self.shards[place(cast("K", key))].entries

    def __iter__(self) -> Iterator[K]:
        return chain.from_iterable(shard.entries for shard in self.shards)

    def __len__(self) -> int:
        return sum(len(shard.entries) for shard in self.shards)

    def values(self) -> ValuesView[V]:
        """Return the values, in the order of the keys."""
        return _Values(self)

    def items(self) -> ItemsView[K, V]:
        """Return the keys with their values."""
        return _Items(self)

    def __repr__(self) -> str:
        return repr(dict(self))


@lru_cache(maxsize=PLACES_KEPT)
def place(key: str | bytes | tuple[str, str]) -> int:
    """Return the shard of a key; unlike its hash, it is the same in every process."""
    if isinstance(key, bytes):
        return crc32(key) % SHARDS
    text = key if isinstance(key, str) else "\0".join(key)
    return crc32(text.encode()) % SHARDS


class _Values(ValuesView[V]):
    def __init__(self, entries: ShardedMap[K, V]) -> None:
        super().__init__(entries)
        self._shards = entries.shards

    def __iter__(self) -> Iterator[V]:
        return chain.from_iterable(shard.entries.values() for shard in self._shards)


class _Items(ItemsView[K, V]):
    def __init__(self, entries: ShardedMap[K, V]) -> None:
        super().__init__(entries)
        self._shards = entries.shards

    def __iter__(self) -> Iterator[tuple[K, V]]:
        return chain.from_iterable(shard.entries.items() for shard in self._shards)


class ShardedDraft(Generic[K, V]):
    """Owns copies of those shards of a map that change, until it is finished."""

    def __init__(self, base: ShardedMap[K, V]) -> None:
        self.touched: set[K] = set()
        self._base = base
        self._changed: dict[int, dict[K, V]] = {}

    def get(self, key: K) -> V | None:
        """Return the value of a key, if it has one now."""
        number = place(key)
        entries = self._changed.get(number)
        return (self._base.shards[number].entries if entries is None else entries).get(key)

    def __setitem__(self, key: K, value: V) -> None:
        self.touched.add(key)
        self._own(place(key))[key] = value

    def discard(self, key: K) -> None:
        """Remove a key, if it is there."""
        if self.get(key) is not None:
            self.touched.add(key)
            del self._own(place(key))[key]

    def finish(self) -> ShardedMap[K, V]:
        """Return the next map; if nothing changed, the one that there was."""
        if not self._changed:
            return self._base
        shards = list(self._base.shards)
        for number, entries in self._changed.items():
            shards[number] = Shard(entries, shards[number].encoded)
        return ShardedMap(shards)

    def _own(self, number: int) -> dict[K, V]:
        entries = self._changed.get(number)
        if entries is None:
            entries = self._changed[number] = dict(self._base.shards[number].entries)
        return entries


class DictDraft(Generic[H, V]):
    """Owns the copy of a small map that changes, until it is finished."""

    def __init__(self, base: Mapping[H, V]) -> None:
        self.touched: set[H] = set()
        self._base = base
        self._changed: dict[H, V] | None = None

    def get(self, key: H) -> V | None:
        """Return the value of a key, if it has one now."""
        return (self._base if self._changed is None else self._changed).get(key)

    def __setitem__(self, key: H, value: V) -> None:
        self._own(key)[key] = value

    def discard(self, key: H) -> None:
        """Remove a key, if it is there."""
        self._own(key).pop(key, None)

    def finish(self) -> Mapping[H, V]:
        """Return the next map; if nothing changed, the one that there was."""
        return self._base if self._changed is None else self._changed

    def _own(self, key: H) -> dict[H, V]:
        self.touched.add(key)
        if self._changed is None:
            self._changed = dict(self._base)
        return self._changed
