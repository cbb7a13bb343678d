"""Marks in a document, between which the generated part stands."""


def between_marks(text: str, name: str, content: str) -> str:
    """Return a document with `content` between the marks `<!-- NAME: begin -->` and `<!-- NAME: end -->`."""
    begin, end = f"<!-- {name}: begin -->\n", f"<!-- {name}: end -->\n"
    before, _, rest = text.partition(begin)
    _, _, after = rest.partition(end)
    return f"{before}{begin}\n{content}\n{end}{after}"
