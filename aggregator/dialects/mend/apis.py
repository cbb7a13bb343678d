"""The rules of model APIs for the definitions of tools. Breaking one fails the whole request, all other tools with it.

Sources: the reference and the errors of Anthropic's Messages API; OpenAI's function calling and structured outputs;
the `Schema` object of the Gemini API, an OpenAPI subset.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from aggregator.dialects.names import Schemas

_STRICT_FORMATS: Final = frozenset(
    {"date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"}
)


@dataclass(frozen=True, slots=True)
class ModelApi:
    """The rules of one API.

    bare: schemas may lack `properties` and `items`. keys: the names that parameters may have; `deep`: at every level,
    not at the top alone. description: the longest one of a tool. tools: the most tools in a request. subset: schemas
    are of the OpenAPI subset of Gemini. strict: every member is required, and no others are allowed. formats: the known
    values of `format`, None for any. depth: the levels of objects and arrays. The rest are bounds on one schema;
    None for no bound.
    """

    name: Schemas
    title: str
    bare: bool = False
    keys: re.Pattern[str] | None = None
    deep: bool = False
    description: int | None = None
    tools: int | None = None
    subset: bool = False
    strict: bool = False
    formats: frozenset[str] | None = None
    depth: int | None = None
    properties: int | None = None
    enum_values: int | None = None
    enum_characters: int | None = None
    characters: int | None = None

    @property
    def rebuilds(self) -> bool:
        """True if every part of a schema is built anew, from the keywords that the API knows."""
        return self.subset or self.strict


_GEMINI_KEY: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")

APIS: Final[Mapping[Schemas, ModelApi]] = {
    api.name: api
    for api in (
        ModelApi("anthropic", "Anthropic's Messages API", bare=True, keys=re.compile(r"[a-zA-Z0-9_.-]{1,64}")),
        ModelApi("openai", "the OpenAI API", description=1_024, tools=128),
        ModelApi(
            "openai-strict",
            "the OpenAI API with `strict`",
            description=1_024,
            tools=128,
            strict=True,
            formats=_STRICT_FORMATS,
            depth=10,
            properties=5_000,
            enum_values=1_000,
            enum_characters=15_000,
            characters=120_000,
        ),
        ModelApi(
            "gemini",
            "the Gemini API",
            keys=_GEMINI_KEY,
            deep=True,
            tools=512,
            subset=True,
            formats=frozenset({"date-time"}),
            depth=10,
        ),
        ModelApi(
            "portable",
            "any model API",
            keys=_GEMINI_KEY,
            deep=True,
            description=1_024,
            tools=128,
            subset=True,
            formats=frozenset({"date-time"}),
            depth=10,
            enum_values=1_000,
            enum_characters=15_000,
        ),
    )
}
