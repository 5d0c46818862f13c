"""What happens to a cluster, and when."""
