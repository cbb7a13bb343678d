"""`python -m scripts.docs`: write every generated file anew."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from scripts.docs import configuration, configuration_schema, policies, policy_schemas, upstream_states

DOCS: Final = Path(__file__).resolve().parents[2] / "docs"

# Documents with a generated part, and what replaces that part in a text.
DOCUMENTS: Final[Mapping[str, Callable[[str], str]]] = {
    "configuration.md": configuration.inserted,
    "policies.md": policies.inserted,
    "supervision.md": upstream_states.inserted,
}


def main() -> None:
    """Write the documents, then the JSON Schemas."""
    for name, inserted in DOCUMENTS.items():
        document = DOCS / name
        document.write_text(inserted(document.read_text(encoding="utf-8")), encoding="utf-8")
    for path, text in (configuration_schema.files() | policy_schemas.files()).items():
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
