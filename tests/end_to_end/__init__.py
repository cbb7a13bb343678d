"""Journeys through real doors: a host on one side, real upstreams on the other."""
