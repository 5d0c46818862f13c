"""Tests of what needs numpy and Arrow are left out where these are not installed."""

from importlib.util import find_spec

collect_ignore = (
    [] if find_spec("numpy") and find_spec("pyarrow") else ["test_decode.py", "test_rows.py"]
)
