"""What a server is called here: the id and the prefix, made of letters, digits, `_` and `-`; and what kind it is."""

import re
from typing import Literal

_OTHER = re.compile(r"[^A-Za-z0-9_-]+")


def usable(text: str) -> str | None:
    """The text with everything else turned into `-`; None when no letter or digit is left."""
    made = _OTHER.sub("-", text)
    if made != text:
        made = made.strip("-")
    return made if re.search("[A-Za-z0-9]", made) else None


def folded(key: str) -> str:
    """The key as the name of an environment variable would have it: `My Server` is `MY_SERVER`."""
    return re.sub("[^A-Za-z0-9]", "_", key).upper()


def source_of(type: str) -> Literal["local", "mcp"]:
    """Return what kind of server has this `type`, as `source` says wherever tools and servers are shown."""
    return "local" if type == "local" else "mcp"
