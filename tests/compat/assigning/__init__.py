"""Groups that assignors are compared with, and Kafka's assignors as a program."""
