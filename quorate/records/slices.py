"""A stretch of an open file that is sent without being read."""


class FileSlice:
    """Bytes of a file, named by position, for ``sendfile``.

    ``owner`` keeps the file open while the slice waits in a queue: whoever deletes the file or
    forgets its descriptor meanwhile only drops one reference to the owner.
    """

    __slots__ = ("fd", "owner", "position", "size_bytes")

    def __init__(self, fd: int, position: int, size_bytes: int, owner: object) -> None:
        assert position >= 0
        assert size_bytes >= 0
        self.fd = fd
        self.position = position
        self.size_bytes = size_bytes
        self.owner = owner

    def __len__(self) -> int:
        return self.size_bytes

    def __repr__(self) -> str:
        return f"FileSlice(fd={self.fd}, position={self.position}, size_bytes={self.size_bytes})"
