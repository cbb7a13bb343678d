"""Benchmarks of the aggregator, beside direct calls of the upstream servers. Run `python -m benchmarks`."""
