"""What the aggregator costs, measured beside the same servers without it. Run `python -m benchmarks`."""
