"""The three tools: statute search, case search and document templates."""

from typing import Annotated

from pydantic import Field

from examples.legal.answers import (
    CaseAnswer,
    CaseItem,
    Placeholder,
    StatuteAnswer,
    StatuteItem,
    TemplateAnswer,
    TemplateName,
)
from examples.legal.arguments import MAX_LIMIT, checked_limit, checked_query, chosen
from examples.legal.library import Article, Case, Library, Template
from examples.legal.search import Entry, Found, FullText, Hit
from examples.legal.texts import runs, snippet

_STATUTE_SOURCE = "随示例服务附带的法律条文摘录（国家法律，不受著作权保护）"
_STATUTE_NOTICE = "只收录部分条文；引用前请核对国家公布的现行文本。"
_CASE_NOTICE = "全部为虚构的示例案例，只用来演示检索，不能作为裁判依据。"
_TEMPLATE_NOTICE = "范本只供参考；重要事务请让律师审阅。"
_NOTHING = "没有命中：请换更短的关键词、用空格隔开多个关键词，或者去掉限定条件。"
_PARTIAL = "没有条目同时包含全部关键词，以下只命中其中一部分。"

Query = Annotated[str, Field(description="关键词，一个字也可以；多个关键词用空格隔开，要求同时出现")]
# The bounds stand in the schema for the caller and are checked by hand, so that the refusal is a readable one.
Limit = Annotated[
    int, Field(description="最多返回几条", json_schema_extra={"minimum": 1, "maximum": MAX_LIMIT, "examples": [5]})
]


class LegalTools:
    """Answers from one library; holds its two full-text indexes."""

    def __init__(self, library: Library) -> None:
        self._library = library
        self._laws = list(dict.fromkeys((article.law, article.short) for article in library.articles))
        self._causes = sorted({(case.cause,) for case in library.cases})
        self._statutes = FullText(
            Entry(item.law, f"{item.law} {item.article} 第{item.number}条", item.text) for item in library.articles
        )
        self._cases = FullText(Entry(item.cause, f"{item.title} {item.cause}", item.text) for item in library.cases)

    async def search_statutes(
        self,
        query: Query,
        law: Annotated[str, Field(description="只在这部法律里找，全称或简称，如 民法典；不填则找全部")] = "",
        limit: Limit = 5,
    ) -> StatuteAnswer:
        """Find articles of law."""
        words, most = checked_query(query), checked_limit(limit)
        within = chosen("law", law, self._laws) if law.strip() else ""
        found = self._statutes.find(words, group=within, limit=most)
        articles = self._library.articles
        return StatuteAnswer(
            query=words,
            law=within,
            total=found.total,
            match="exact" if found.exact else "partial",
            items=[_statute(articles[hit.position], hit, words) for hit in found.hits],
            source=_STATUTE_SOURCE,
            updated_at=max(article.updated_at for article in articles),
            notice=_notice(found, _STATUTE_NOTICE),
        )

    async def search_cases(
        self,
        query: Query,
        cause: Annotated[str, Field(description="只找这个案由，如 劳动争议；不填则找全部")] = "",
        limit: Limit = 5,
    ) -> CaseAnswer:
        """Find made-up sample cases."""
        words, most = checked_query(query), checked_limit(limit)
        within = chosen("cause", cause, self._causes) if cause.strip() else ""
        found = self._cases.find(words, group=within, limit=most)
        cases = self._library.cases
        return CaseAnswer(
            sample=True,
            query=words,
            cause=within,
            total=found.total,
            match="exact" if found.exact else "partial",
            items=[_case(cases[hit.position], hit, words) for hit in found.hits],
            source=cases[0].source,
            updated_at=max(case.updated_at for case in cases),
            notice=_notice(found, _CASE_NOTICE),
        )

    async def get_document_template(
        self, template: Annotated[str, Field(description="模板的 id 或者名称，如 iou 或 借条")]
    ) -> TemplateAnswer:
        """Fetch one template with its placeholders."""
        templates = self._library.templates
        wanted = chosen("template", template, ((item.id, item.title) for item in templates))
        return _template(
            next(item for item in templates if item.id == wanted),
            [TemplateName(id=item.id, title=item.title) for item in templates if item.id != wanted],
        )

    def template_choices(self) -> str:
        """Every template's id and title, for the tool's description."""
        return "、".join(f"{item.id}（{item.title}）" for item in self._library.templates)

    def law_choices(self) -> str:
        """Every law's short name, for the tool's description."""
        return "、".join(short for _, short in self._laws)


def _notice(found: Found, standing: str) -> str:
    if not found.total:
        return _NOTHING + standing
    return standing if found.exact else _PARTIAL + standing


def _statute(article: Article, hit: Hit, words: str) -> StatuteItem:
    return StatuteItem(
        law=article.law,
        article=article.article,
        number=article.number,
        text=article.text,
        snippet=snippet(article.text, runs(words)),
        score=hit.score,
        effective_from=article.effective_from,
        source=article.source,
        updated_at=article.updated_at,
    )


def _case(case: Case, hit: Hit, words: str) -> CaseItem:
    return CaseItem(
        sample=True,
        id=case.id,
        title=case.title,
        cause=case.cause,
        court=case.court,
        decided_on=case.decided_on,
        facts=case.facts,
        reasoning=case.reasoning,
        outcome=case.outcome,
        statutes=list(case.statutes),
        snippet=snippet(case.text, runs(words)),
        score=hit.score,
        source=f"{case.source} {case.id}",
        updated_at=case.updated_at,
    )


def _template(item: Template, others: list[TemplateName]) -> TemplateAnswer:
    return TemplateAnswer(
        id=item.id,
        title=item.title,
        purpose=item.purpose,
        body=item.body,
        placeholders=[
            Placeholder(name=name, meaning=meaning, example=example) for name, meaning, example in item.placeholders
        ],
        others=others,
        source=item.source,
        updated_at=item.updated_at,
        notice=_TEMPLATE_NOTICE,
    )
