"""Standard output and error as they may be found."""

import io
import json

import pytest

from quorate.tools.standard_streams import write_all_characters


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8", "cp1252"])
def test_what_an_encoding_lacks_is_written_as_json_reads_it(encoding: str) -> None:
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding=encoding, errors="strict")
    write_all_characters(stream)
    text = json.dumps({"group": "é日😀", "state": "●"}, ensure_ascii=False)
    stream.write(text)
    stream.flush()
    assert json.loads(raw.getvalue().decode(encoding)) == json.loads(text)


def test_names_of_files_that_are_not_utf_8_are_written() -> None:
    for errors, written in (("strict", b"\\udcff"), ("surrogateescape", b"\xff")):
        raw = io.BytesIO()
        stream = io.TextIOWrapper(raw, encoding="utf-8", errors=errors)
        write_all_characters(stream)
        stream.write(b"\xff".decode(errors="surrogateescape"))
        stream.flush()
        assert raw.getvalue() == written
