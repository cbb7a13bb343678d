"""Pinned definitions at work: real servers that change what they say, while connected and over restarts."""
