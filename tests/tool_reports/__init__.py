"""Tests of tool reports: what agents say is broken, and what operators see of it."""
