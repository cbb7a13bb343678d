"""The Chromium of the browser tests, and the words for a machine that has none."""

import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Final

NAMES: Final = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
NOT_RUN: Final = (
    f"the console was not tried in a browser: none of {', '.join(NAMES)} is on PATH, and $CHROMIUM names none"
)
# No request but those to the console, no first-run pages, no GPU.
ARGUMENTS: Final = (
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--force-color-profile=srgb",
)


class ChromiumMissing(Exception):
    """`$CHROMIUM` names something that cannot be run."""


def find_chromium(environ: Mapping[str, str] = os.environ) -> Path | None:
    """Return the browser's path, None where there is none.

    Raises:
        ChromiumMissing: `$CHROMIUM` is set, and names no program.
    """
    named = environ.get("CHROMIUM")
    if named:
        found = shutil.which(named, path=environ.get("PATH", os.defpath))
        if found is None:
            raise ChromiumMissing(f"$CHROMIUM is {named!r}, which is no program; unset it, or name a Chromium")
        return Path(found)
    paths = (shutil.which(name, path=environ.get("PATH", os.defpath)) for name in NAMES)
    return next((Path(path) for path in paths if path is not None), None)
