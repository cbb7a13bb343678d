"""The bundled legal data: statute articles, made-up sample cases and document templates, read from the package."""

import json
from dataclasses import dataclass
from datetime import date
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Any


@dataclass(frozen=True, slots=True)
class Article:
    """One article of a law, word for word."""

    law: str
    short: str
    article: str
    number: int
    text: str
    effective_from: date
    source: str
    updated_at: date


@dataclass(frozen=True, slots=True)
class Case:
    """One made-up case."""

    id: str
    title: str
    cause: str
    court: str
    decided_on: date
    facts: str
    reasoning: str
    outcome: str
    statutes: tuple[str, ...]
    source: str
    updated_at: date

    @property
    def text(self) -> str:
        """All a reader searches: facts, reasoning, outcome and the articles relied on."""
        return "\n".join((self.facts, self.reasoning, self.outcome, "、".join(self.statutes)))


@dataclass(frozen=True, slots=True)
class Template:
    """One document template; placeholders are (name, meaning, example), written `{{name}}` in the body."""

    id: str
    title: str
    purpose: str
    body: str
    placeholders: tuple[tuple[str, str, str], ...]
    source: str
    updated_at: date


@dataclass(frozen=True, slots=True)
class Library:
    """The whole data of the example."""

    articles: tuple[Article, ...]
    cases: tuple[Case, ...]
    templates: tuple[Template, ...]


def load_library() -> Library:
    """Read the bundled JSON files; about a millisecond, no network."""
    data = files("examples.legal") / "data"
    laws = sorted((data / "statutes").iterdir(), key=lambda file: file.name)
    return Library(
        articles=tuple(article for file in laws if file.name.endswith(".json") for article in _articles(_read(file))),
        cases=_cases(_read(data / "cases.json")),
        templates=_templates(_read(data / "templates.json")),
    )


def _read(file: Traversable) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return content


def _articles(law: dict[str, Any]) -> list[Article]:
    return [
        Article(
            law=law["law"],
            short=law["short"],
            article=item["article"],
            number=item["number"],
            text=item["text"],
            effective_from=date.fromisoformat(law["effective_from"]),
            source=f"《{law['law']}》{item['article']}（{law['passed']}）",
            updated_at=date.fromisoformat(law["updated_at"]),
        )
        for item in law["articles"]
    ]


def _cases(file: dict[str, Any]) -> tuple[Case, ...]:
    return tuple(
        Case(
            **{
                **item,
                "decided_on": date.fromisoformat(item["decided_on"]),
                "statutes": tuple(item["statutes"]),
                "source": file["source"],
                "updated_at": date.fromisoformat(file["updated_at"]),
            }
        )
        for item in file["cases"]
    )


def _templates(file: dict[str, Any]) -> tuple[Template, ...]:
    return tuple(
        Template(
            **{
                **item,
                "placeholders": tuple((name, meaning, example) for name, meaning, example in item["placeholders"]),
                "source": file["source"],
                "updated_at": date.fromisoformat(file["updated_at"]),
            }
        )
        for item in file["templates"]
    )
