"""The port of a document of any format that can be edited in place."""

from collections.abc import Mapping
from typing import Literal, Protocol

Format = Literal["json", "toml", "yaml"]
Path = tuple[str | int, ...]


class EditableDocument(Protocol):
    """A text with the values in it; edits change the text around one value alone."""

    @property
    def text(self) -> str:
        """The text, with all edits so far."""
        ...

    @property
    def root(self) -> Mapping[str, object]:
        """The values of the text as plain objects, with all edits so far; of a repeated key the last counts."""
        ...

    @property
    def every_value(self) -> object:
        """The values of the text; in place of one under a repeated key, the list of all of them."""
        ...

    def line(self, path: Path) -> int:
        """Return the line, from 1, on which the value at a path begins with its key; of none, that of what holds it."""
        ...

    def put(self, path: Path, value: object) -> None:
        """Set the value at a path; missing objects on the way are created. An index past the end appends."""
        ...

    def remove(self, path: Path) -> None:
        """Remove the value at a path, with its key. Raises KeyError when it is not there."""
        ...

    def rename(self, path: Path, key: str) -> None:
        """Rename the key at the end of a path, in its place. Raises KeyError when it is not there."""
        ...
