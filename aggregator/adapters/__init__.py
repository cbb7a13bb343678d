"""Other frameworks on top of the aggregator, in the same process."""
