"""One Hypothesis profile for everything here: no deadline, since shared machines stall, and a moderate number."""

from hypothesis import settings

settings.register_profile("unit", deadline=None, max_examples=60)
settings.load_profile("unit")
