"""Requests, log messages and progress of servers to hosts, between both eras, every transport and frontend."""
