"""The few tools by which a model finds, reads and calls all others: one file each, and the list in `all.py`."""
