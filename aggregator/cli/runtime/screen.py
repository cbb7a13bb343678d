"""Coloured output and tables: the `Console` of rich, which escapes all that a terminal would act on but our colours.

Rule: texts that came from elsewhere are shown with `plain`, so that their brackets are no colours of ours.
"""

import sys
from collections.abc import Iterable
from typing import Any, Final

from rich.console import Console, ConsoleOptions, RenderableType
from rich.markup import escape
from rich.segment import Segment
from rich.text import Text

from aggregator.cli.runtime.tables import one_line
from aggregator.domain.text.invisible import visible

# A table in a file or a pipe is as wide as this.
_UNBOUNDED: Final = 160


class Screen(Console):
    """A console of rich for stdout, or for stderr."""

    def __init__(self, *, stderr: bool = False, soft_wrap: bool = False, markup: bool = True) -> None:
        stream = sys.stderr if stderr else sys.stdout
        width = None if stderr or stream.isatty() else _UNBOUNDED
        super().__init__(highlight=False, soft_wrap=soft_wrap, markup=markup, stderr=stderr, width=width)

    def render_str(self, text: str, **options: Any) -> Text:
        """Make a text of rich; its escapes count in the width of a column."""
        return super().render_str(visible(text), **options)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Yield the rendered segments; texts that rich generated are escaped here."""
        for one in super().render(renderable, options):
            yield one if one.control else Segment(visible(one.text), one.style)


def plain(text: str) -> str:
    """Return a text on one line, escaped for the markup of rich."""
    return escape(one_line(text))
