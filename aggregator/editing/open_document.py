"""Open a text of any format for edits."""

from aggregator.editing.document import EditableDocument, Format
from aggregator.editing.errors import EditError
from aggregator.editing.json_document import JsonDocument
from aggregator.editing.yaml_document import YamlDocument


def open_document(text: str, format: Format, name: str) -> EditableDocument:
    """Return a document of a text; `name` is how errors call it, such as the path of its file.

    Raises:
        EditError: the text is not in this format, or no object.
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        raise EditError(f"{name} holds half a character (a lone surrogate). Take it out.") from None
    if format == "json":
        return JsonDocument(text, name)
    if format == "toml":
        from aggregator.editing.toml_document import TomlDocument

        return TomlDocument(text, name)
    return YamlDocument(text, name)
