"""Answers of the three tools. Law: every answer and every item in it names its source and the date of its data."""

from datetime import date
from typing import Literal

from pydantic import BaseModel, Field


class Attributed(BaseModel):
    """An answer or item with a source."""

    source: str = Field(description="资料来源")
    updated_at: date = Field(description="资料更新日期（ISO 8601）")


class SearchAnswer(Attributed):
    """The fields of every search besides its items."""

    query: str = Field(description="实际检索的关键词")
    total: int = Field(description="命中总数，可能多于返回条数")
    match: Literal["exact", "partial"] = Field(description="exact：关键词全部原样出现；partial：只命中其中一部分")
    notice: str = Field(description="使用提示")


class StatuteItem(Attributed):
    """One article found."""

    law: str = Field(description="法律全称")
    article: str = Field(description="条文序号，如 第五百七十七条")
    number: int = Field(description="条文序号的数字形式")
    text: str = Field(description="条文全文")
    snippet: str = Field(description="命中片段，命中词放在【】里")
    score: float = Field(description="相关度，越大越相关")
    effective_from: date = Field(description="所引版本的施行日期")


class StatuteAnswer(SearchAnswer):
    """Articles found, best first."""

    law: str = Field(description="限定的法律全称；空字符串表示不限")
    items: list[StatuteItem]


class CaseItem(Attributed):
    """One made-up case found."""

    sample: Literal[True] = Field(description="恒为 true：这是虚构的示例案例")
    id: str
    title: str
    cause: str = Field(description="案由")
    court: str
    decided_on: date
    facts: str = Field(description="基本事实")
    reasoning: str = Field(description="裁判理由")
    outcome: str = Field(description="裁判结果")
    statutes: list[str] = Field(description="引用的法条")
    snippet: str = Field(description="命中片段，命中词放在【】里")
    score: float = Field(description="相关度，越大越相关")


class CaseAnswer(SearchAnswer):
    """Made-up cases found, best first."""

    sample: Literal[True] = Field(description="恒为 true：全部为虚构的示例案例")
    cause: str = Field(description="限定的案由；空字符串表示不限")
    items: list[CaseItem]


class Placeholder(BaseModel):
    """A gap in a template, written {{name}} in its body."""

    name: str
    meaning: str = Field(description="该填什么")
    example: str


class TemplateName(BaseModel):
    """A template one can ask for."""

    id: str
    title: str


class TemplateAnswer(Attributed):
    """One template in full."""

    id: str
    title: str
    purpose: str = Field(description="适用场合")
    body: str = Field(description="正文，待填处写作 {{name}}")
    placeholders: list[Placeholder] = Field(description="待填项，按正文出现顺序")
    others: list[TemplateName] = Field(description="其他可用的模板")
    notice: str = Field(description="使用提示")
