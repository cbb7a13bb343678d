"""Packaging: the wheel, the source distribution and releases."""
