"""The owners of files that this user cannot use."""

import os
import sys
from contextlib import suppress
from pathlib import Path


def other_owner(*paths: Path) -> str | None:
    """Return the name of the first owner of these files and folders who is not this user; None if all are ours."""
    if sys.platform == "win32":
        return None
    for path in paths:
        with suppress(OSError):
            status = path.stat()
            if status.st_uid != os.geteuid():
                try:
                    return path.owner()
                except KeyError:
                    return f"the user {status.st_uid}"
    return None
