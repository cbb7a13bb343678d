"""Pinned definitions: digests, classes of changes, renames, flags, lock files, and the commands."""
