"""Whether files are others than before, without reading them."""

from collections.abc import Iterable
from pathlib import Path

Stamp = tuple[object, ...]


def stamp(path: Path) -> Stamp:
    """Differs as soon as the file does; the same for all that cannot be looked at."""
    try:
        status = path.stat()
    except (OSError, ValueError):
        return (str(path),)
    # Not by time and size alone: a restored backup has those of the file it replaces.
    return (str(path), status.st_mtime_ns, status.st_size, status.st_ino, status.st_ctime_ns)


def signature(paths: Iterable[Path]) -> dict[Path, Stamp]:
    """Differs as soon as one of the files does."""
    return {path: stamp(path) for path in paths}
