"""Load generators, scenarios, peers and the report."""
