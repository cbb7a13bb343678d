"""Output of commands at the terminal of an operator, with hostile servers and configurations."""
