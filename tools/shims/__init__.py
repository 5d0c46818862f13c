"""Kafka's command line tools: their arguments and their words, for tutorials and scripts."""
