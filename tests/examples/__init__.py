"""Tests of the example upstream servers, each through its real door."""
