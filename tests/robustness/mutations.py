"""Ways to damage a frame.  The first four bytes of a frame are its size."""

from collections.abc import Callable
from random import Random
from typing import Final

SIZE_BYTES: Final = 4
FRAME_BYTES_MAX: Final = 1 << 31

Mutation = Callable[[Random, bytes, bytes], bytes]
"""Takes a frame and another one, both valid."""


def flip_bits(rng: Random, frame: bytes, other: bytes) -> bytes:
    """Flip one to four bits behind the size."""
    changed = bytearray(frame)
    for _ in range(rng.randint(1, 4)):
        changed[rng.randrange(SIZE_BYTES, len(changed))] ^= 1 << rng.randrange(8)
    return bytes(changed)


def overwrite(rng: Random, frame: bytes, other: bytes) -> bytes:
    """Put numbers that hurt at one to three places."""
    changed = bytearray(frame[SIZE_BYTES:])
    for _ in range(rng.randint(1, 3)):
        at = rng.randrange(len(changed))
        hurting = rng.choice(
            (b"\xff", b"\x00", b"\x7f", b"\x80", b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff",
             b"\xff\xff\xff\xff\x07", b"\x80\x00\x00\x00", rng.randbytes(2))
        )  # fmt: skip
        changed[at : at + len(hurting)] = hurting
    return _framed(bytes(changed))


def truncate(rng: Random, frame: bytes, other: bytes) -> bytes:
    """Cut the end off, and say so in the size."""
    return _framed(frame[SIZE_BYTES : rng.randrange(SIZE_BYTES, len(frame))])


def insert_or_remove(rng: Random, frame: bytes, other: bytes) -> bytes:
    """Repeat or remove a few bytes in the middle."""
    body = frame[SIZE_BYTES:]
    at = rng.randrange(len(body))
    width = rng.randint(1, 20)
    if rng.random() < 0.5:
        return _framed(body[:at] + body[at + width :])
    return _framed(body[: at + width] + body[at:])


def splice(rng: Random, frame: bytes, other: bytes) -> bytes:
    """Join the head of one frame and the tail of another."""
    head = frame[SIZE_BYTES : rng.randrange(SIZE_BYTES, len(frame))]
    return _framed(head + other[rng.randrange(SIZE_BYTES, len(other)) :])


def lie_about_size(rng: Random, frame: bytes, other: bytes) -> bytes:
    """Announce another size than comes."""
    true = len(frame) - SIZE_BYTES
    size = rng.choice(
        (true + rng.randint(1, 50), max(true - rng.randint(1, 50), 0), 0, 1, 7, -1, -(1 << 31),
         (1 << 31) - 1, 1 << 20, 100 << 20, rng.randrange(1 << 24))
    )  # fmt: skip
    return size.to_bytes(SIZE_BYTES, "big", signed=True) + frame[SIZE_BYTES:]


def change_header(rng: Random, frame: bytes, other: bytes) -> bytes:
    """Ask for another API or version."""
    changed = bytearray(frame)
    if rng.random() < 0.5:
        changed[4:6] = rng.choice((rng.randrange(90), rng.randrange(1 << 16))).to_bytes(2, "big")
    else:
        changed[6:8] = rng.choice((rng.randrange(20), rng.randrange(1 << 16))).to_bytes(2, "big")
    return bytes(changed)


def random_bytes(rng: Random, frame: bytes, other: bytes) -> bytes:
    """Send noise, in a frame or not."""
    noise = rng.randbytes(rng.randrange(200))
    return _framed(noise) if rng.random() < 0.7 else noise


MUTATIONS: Final[tuple[Mutation, ...]] = (
    flip_bits,
    flip_bits,
    flip_bits,
    overwrite,
    overwrite,
    truncate,
    insert_or_remove,
    splice,
    lie_about_size,
    change_header,
    random_bytes,
)


def _framed(body: bytes) -> bytes:
    return len(body).to_bytes(SIZE_BYTES, "big") + body
