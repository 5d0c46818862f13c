"""Reads markup that reports consist of, strictly."""

from html.parser import HTMLParser
from xml.etree import ElementTree as ET

VOID = frozenset({"meta", "br", "link"})


def tree(markup: str) -> ET.Element:
    """Return an element of ours: it must be well-formed."""
    return ET.fromstring(markup)


class Page(HTMLParser):
    """A page: every element that is begun is ended; the text of those asked for is kept."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: dict[str, int] = {}
        self.classes: dict[str, int] = {}
        self.texts: list[tuple[str, str]] = []
        self.attributes: list[tuple[str, str, str]] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] = self.tags.get(tag, 0) + 1
        for name, value in attrs:
            self.attributes.append((tag, name, value or ""))
            for word in (value or "").split() if name == "class" else ():
                self.classes[word] = self.classes.get(word, 0) + 1
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and data.strip():
            self.texts.append((self.open[-1], data.strip()))

    def said(self, tag: str) -> list[str]:
        """Return the texts that stand directly in elements of a name."""
        return [text for one, text in self.texts if one == tag]
