"""What a node tells Prometheus: names, values read when it is asked, and the answers of HTTP."""
