"""Several processes on one database that serve as one."""
