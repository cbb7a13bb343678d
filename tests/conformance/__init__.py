"""The public conformance suite, run against our front and against our upstream side: `python -m tests.conformance`."""
