"""Bugs to plant: a harness that has never found one proves nothing by finding none."""
