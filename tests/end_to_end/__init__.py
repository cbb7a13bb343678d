"""End-to-end tests: a host on one side, real frontends, real upstreams on the other side."""
