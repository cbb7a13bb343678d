"""Calls that are answered without a task, held against the same calls in the pipeline; and HTTP bytes that are none."""
