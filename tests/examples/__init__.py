"""Tests of the example upstream servers, each over its real transport."""
