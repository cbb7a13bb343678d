"""The words of the house: what travels, who is asking, what went wrong."""
