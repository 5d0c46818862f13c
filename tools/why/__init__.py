"""Why the cluster is as it is: answers, each line of which cites the record that it comes from."""
