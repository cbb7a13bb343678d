"""Fold a name to one form for all its spellings in upper and lower case, so that these compare as equal."""


def caseless(name: str) -> str:
    """Return one form of all names that some program takes for the same: `ſ` is `s`, and each kind of `i` is `i`."""
    if name.isascii():
        return name.lower()
    return name.upper().casefold().replace("\u0307", "")
