"""`aggregator add`: descriptions, packages, bundles, registries, the trial, and the command itself."""
