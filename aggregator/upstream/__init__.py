"""The servers behind: one link each, over one of four transports, kept by one supervisor."""
