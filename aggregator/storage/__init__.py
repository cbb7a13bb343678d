"""What outlives the process: one database file. Only `database` and the plain records are light to import."""
