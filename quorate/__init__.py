"""Quorate: a ZooKeeper-free, Kafka-wire-compatible log broker on Trio."""

__version__ = "0.1.0"
