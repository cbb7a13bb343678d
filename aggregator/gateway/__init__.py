"""What every door asks: the road of a call, the lists, and the way back. Speaks plain JSON objects."""
