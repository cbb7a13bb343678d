"""The three levels of detail of a tool, and what they cost."""
