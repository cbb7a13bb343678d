"""Names of servers: the id and the prefix, of letters, digits, `_` and `-`; and the source that results name."""

import re
from typing import Literal

_OTHER = re.compile(r"[^A-Za-z0-9_-]+")


def usable(text: str) -> str | None:
    """Return a text with other characters turned into `-`; None when no letter or digit is left."""
    made = _OTHER.sub("-", text)
    if made != text:
        made = made.strip("-")
    return made if re.search("[A-Za-z0-9]", made) else None


def folded(key: str) -> str:
    """Return a key as a part of the name of an environment variable: `My Server` is `MY_SERVER`."""
    return re.sub("[^A-Za-z0-9]", "_", key).upper()


def source_of(type: str) -> Literal["local", "mcp"]:
    """Return the `source` that tools and servers of a `type` are shown with."""
    return "local" if type == "local" else "mcp"
