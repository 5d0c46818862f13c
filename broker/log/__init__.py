"""Log storage: synchronous, all file access through files.py."""
