"""The JSON Schemas of policy files and of cases, for editors; `scripts/generate` writes them from the models."""

from pathlib import Path
from typing import Final

SCHEMA_FILE: Final = Path(__file__).with_name("policy.schema.json")
CASES_FILE: Final = Path(__file__).with_name("cases.schema.json")
