"""Who reads what: Kafka's four assignors."""
