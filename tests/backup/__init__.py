"""Backups of the database, restored into either kind of store; retention; the commands for both."""
