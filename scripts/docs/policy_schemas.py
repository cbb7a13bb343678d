"""The JSON Schemas that editors check policy files and cases with, from the models of these files."""

import json
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel

from aggregator.policy.files.cases import CasesFile
from aggregator.policy.files.documents import PolicyFile
from aggregator.policy.files.schema import CASES_FILE, SCHEMA_FILE


def build(model: type[BaseModel], title: str) -> dict[str, Any]:
    """Return the schema of one kind of file."""
    made = model.model_json_schema()
    made["title"] = title
    for part in (made, *made.get("$defs", {}).values()):
        for field in part.get("properties", {}).values():
            field.pop("title", None)
            if "patternProperties" in field:
                field["additionalProperties"] = False
            # A key without a value is an empty list or object.
            if field.get("type") in ("array", "object"):
                field["type"] = [field["type"], "null"]
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **made}


_MODELS: Final[dict[Path, tuple[type[BaseModel], str]]] = {
    SCHEMA_FILE: (PolicyFile, "policies/*.yaml of aggregator"),
    CASES_FILE: (CasesFile, "policies/cases/*.yaml of aggregator"),
}


def files() -> dict[Path, str]:
    """Return the texts of the files that the package has for editors."""
    return {
        path: json.dumps(build(model, title), indent=2, ensure_ascii=False) + "\n"
        for path, (model, title) in _MODELS.items()
    }
