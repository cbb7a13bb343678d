"""A legal knowledge server over stdio: statute search, case search and document templates, offline and keyless."""
