"""One Hypothesis profile for everything here: no deadline, since shared machines stall, and a moderate number."""

from hypothesis import settings

from tests.laws import examples

settings.register_profile("unit", deadline=None, max_examples=examples(60))
settings.load_profile("unit")
