"""Names without what programs that ignore case make no difference of."""


def caseless(name: str) -> str:
    """Return one form of all names that some program takes for the same: `ſ` is `s`, and each kind of `i` is `i`."""
    if name.isascii():
        return name.lower()
    return name.upper().casefold().replace("\u0307", "")
