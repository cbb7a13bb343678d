"""Names of parameters that a model API takes."""

import re
from collections.abc import Iterable

_LONGEST = 56


def renamed(names: Iterable[str], keys: re.Pattern[str] | None) -> dict[str, str]:
    """Return new names for those that an API does not take, by their own names; the same for the same names."""
    found: dict[str, str] = {}
    known = set(names)
    # The next number of each name: counting from the start would take quadratic time.
    numbers: dict[str, int] = {}
    for name in names if keys is not None else ():
        if keys is not None and not keys.fullmatch(name):
            plain = re.sub(r"[^A-Za-z0-9_]", "_", name[:_LONGEST])
            plain = plain if re.match(r"[A-Za-z_]", plain) else f"_{plain}"[:_LONGEST]
            new, number = plain, numbers.get(plain, 2)
            while new in known or not keys.fullmatch(new):
                new, number = f"{plain}_{number}", number + 1
            numbers[plain] = number
            known.add(new)
            found[name] = new
    return found
