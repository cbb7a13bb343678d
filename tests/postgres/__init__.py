"""A real PostgreSQL for tests: a cluster of their own in a temporary folder, and what is tried on it alone."""
