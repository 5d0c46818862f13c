"""The little of HTTP that a metrics port needs: one request, one answer, and the end."""

from typing import Final

from quorate.dataclass import dataclass

HEAD_BYTES_MAX: Final = 8192
END: Final = b"\r\n\r\n"
TEXT: Final = "text/plain; charset=utf-8"
REASONS: Final = {
    200: "OK",
    400: "Bad Request",
    404: "Not Found",
    405: "Method Not Allowed",
    431: "Request Header Fields Too Large",
    503: "Service Unavailable",
}


@dataclass(frozen=True, slots=True)
class Asked:
    """A request: what is wanted, and whether only the head of it."""

    path: str
    head_only: bool = False


@dataclass(frozen=True, slots=True)
class Told:
    """An answer."""

    status: int
    body: bytes
    content_type: str = TEXT

    def encoded(self, *, head_only: bool = False) -> bytes:
        """Return the answer as bytes."""
        head = (
            f"HTTP/1.1 {self.status} {REASONS[self.status]}\r\n"
            f"Content-Type: {self.content_type}\r\n"
            f"Content-Length: {len(self.body)}\r\n"
            "Connection: close\r\n"
        )
        if self.status == 405:
            head += "Allow: GET, HEAD\r\n"
        return head.encode() + b"\r\n" + (b"" if head_only else self.body)


def said(status: int, text: str) -> Told:
    """Return an answer of a line of text."""
    return Told(status, f"{text}\n".encode())


def parse_head(data: bytes) -> Asked | Told | None:
    """Return what is asked; what is wrong with it; None if the head has not ended yet."""
    head, end, _ = data.partition(END)
    if not end:
        return said(431, "a request of a few lines, please") if len(data) > HEAD_BYTES_MAX else None
    words = head.split(b"\r\n", 1)[0].split(b" ")
    if len(words) != 3 or not words[2].startswith(b"HTTP/1."):
        return said(400, "this is an HTTP port")
    method, target, _ = words
    if method not in (b"GET", b"HEAD"):
        return said(405, "GET only")
    path = target.partition(b"?")[0].decode("ascii", "replace")
    return Asked(path, method == b"HEAD")
