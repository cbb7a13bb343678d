"""The JSON Schemas that editors check policy files and cases with, made from the models.

`python -m aggregator.policy.files.schema` writes them anew; a test says when that is due.
"""

import json
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel

from aggregator.policy.files.cases import CasesFile
from aggregator.policy.files.documents import PolicyFile

SCHEMA_FILE: Final = Path(__file__).with_name("policy.schema.json")
CASES_FILE: Final = Path(__file__).with_name("cases.schema.json")


def build(model: type[BaseModel], title: str) -> dict[str, Any]:
    """Return the schema of one kind of file."""
    made = model.model_json_schema()
    made["title"] = title
    for part in (made, *made.get("$defs", {}).values()):
        for field in part.get("properties", {}).values():
            field.pop("title", None)
            if "patternProperties" in field:
                field["additionalProperties"] = False
            # Keys with nothing after them are empty lists and objects.
            if field.get("type") in ("array", "object"):
                field["type"] = [field["type"], "null"]
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **made}


def rendered(model: type[BaseModel], title: str) -> str:
    """Return the text of a shipped file."""
    return json.dumps(build(model, title), indent=2, ensure_ascii=False) + "\n"


FILES: Final[dict[Path, tuple[type[BaseModel], str]]] = {
    SCHEMA_FILE: (PolicyFile, "policies/*.yaml of aggregator"),
    CASES_FILE: (CasesFile, "policies/cases/*.yaml of aggregator"),
}


def main() -> None:
    """Write the shipped files."""
    for path, (model, title) in FILES.items():
        path.write_text(rendered(model, title), encoding="utf-8")


if __name__ == "__main__":
    main()
