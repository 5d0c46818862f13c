"""The cluster under test: its processes, and the network, the disks and the clocks below them."""
