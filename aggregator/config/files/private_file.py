"""Writing of small files that only this user may read."""

import os
from contextlib import suppress
from pathlib import Path

from aggregator.config.errors import ConfigError
from aggregator.domain.patient_files import move_over


def write_private(path: Path, text: str) -> None:
    """Write a file whole, with mode 0600, in place of one that is there. Raises ConfigError."""
    import tempfile  # the supervisor of workers, which finds the configuration, writes no such file

    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as file:
                file.write(text)
            move_over(temporary, path)
        except OSError:
            with suppress(OSError):
                os.unlink(temporary)
            raise
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {error.strerror or error}.") from None
