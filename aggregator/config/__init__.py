"""What the operator wrote, checked: `aggregator.json`, the environment, and the defaults."""
