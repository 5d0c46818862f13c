"""Other people's programs, fetched and built once: Java's clients and broker, kcat, librdkafka.

Standard library only, so that tests and benchmarks can both stand on it.  Everything is kept
under the repository's git-ignored `.cache/` and works offline once it is there.  What cannot be
had raises `peers.cache.PeerUnavailableError` with a reason for the person who reads a skip.
"""
