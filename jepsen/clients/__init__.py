"""Clients that workloads use, ours and stock ones, so that no bug of one hides one of ours."""
