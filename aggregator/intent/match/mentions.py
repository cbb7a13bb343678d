"""Tell a trigger keyword that a message only mentions from one that asks: reports, opinions, refusals, quotations.

A keyword is no name, and a message needs no verb beside it. So only what clearly tells counts here: no question mark,
no order, and a word for the past or for an opinion.

Law: a pattern sees one clause, at most 160 characters to either side of the keyword.
"""

import re
from collections.abc import Iterable, Iterator
from math import inf
from typing import Final

from aggregator.catalog.search.terms.language import rarity
from aggregator.catalog.search.terms.stem import stem
from aggregator.intent.match.clauses import NEAR, clause_around
from aggregator.intent.match.keywords import KeywordHit
from aggregator.intent.match.language_row import LanguageRow
from aggregator.intent.match.material import is_material
from aggregator.intent.match.phrasing import is_forbidden, is_mention
from aggregator.intent.match.sentences import orders_anything
from aggregator.intent.match.text import MessageText
from aggregator.intent.match.words import any_of

# A quotation of so many characters is a text of someone; a shorter one may be what is sought.
_QUOTATION: Final = 16
# Advice that is sought from a person: what shall I do.
_ADVICE_ZH: Final = re.compile(r"(?:我该怎么|怎么办|怎么圆|怎么跟|怎么和|怎么回)[^,。?？]{0,40}[?？]?")
_CLAUSES_READ: Final = 40
_STOP: Final = re.compile(r"[.,;:!\n]\s*| - | – |—")
_WANTS: Final = re.compile(
    rf"[?？]|[吗呢]|什么|哪|几点|几[个条]|有没有|是不是|啥|瞄|瞧|多少|怎么样|咋样|如何|帮|请(?![假客])|查(?!出了)"
    rf"|看看|看一下|看下|找(?!工作|到)|搜|(?<![他她])给我|一下|告诉|(?<![又被老总])[把将]|我想|我要|需要|想要|想知道|别忘|记得|提醒"
    rf"|{any_of('asking-politely', 'wishing')}"
    r"|([\u4e00-\u9fff])不\1|(?<!is )(?<!are )(?<![a-z])(?:what|whats|which|why|how|where)(?![a-z])"
    r"|(?<![a-z])(?:grateful|appreciate|would (?:love|be (?:great|lovely|nice|handy|good|helpful)))(?![a-z])"
    r"|て(?:ください|下さい|くれ|ほしい|欲しい)|教えて|お願い|ますか|ですか"
)
# A statement: somebody does something, something is so.
_STATES_EN: Final = re.compile(
    r"(?<![a-z])(?:i|we|he|she|they|you|it|everyone|nobody|people)(?!['’](?:d|ll)(?![a-z]))(?:['’][a-z]{1,3})?"
    r" (?!would|could|can|will|should|might|must|need|want|have to|gotta|wanna)[a-z]+"
    r"|(?<![a-z])(?:is|isn['’]?t|are|aren['’]?t|was|wasn['’]?t|were|has|had|makes?|made|sucks?|feels?|keeps?|creeps?"
    r"|hurts?|annoys?)(?![a-z])"
)
_STATES_ZH: Final = re.compile(r"我|他|她|咱|你们|老板|朋友|同事|大家|[了过着得就也没不]|讨厌|喜欢|恨|烦")
_ITSELF: Final = re.compile(any_of("about-itself"))
_PAST_ZH: Final = re.compile(r"当初|昨天|昨晚|昨夜|前天|上周|上个月|去年|以前|小时候|当年|早就")
_ORDERED_ZH: Final = re.compile(r"[?？]|[吗呢]|帮|请|查|给我|告诉")
_ENDED_ZH: Final = re.compile(r"[了的过]$|[看听读想做用]多了|[了过],|[了过]。")
_OPINION_ZH: Final = re.compile(
    r"\s*(?:可|也|都)?(?:真|太|挺|好(?!不好)|很|这么|不错|糟)[^,。?？吗呢么]{0,6}(?:$|[,。!！])"
)
_DROPPED_ZH: Final = re.compile(r"(?:不用|没用过?|以前用过|曾经用过|不再用|弃用|放弃|换掉|停用|卸载)(?:了)?\s*$")
# 新闻系, 新闻学: the beginning of another word.
_LONGER_ZH: Final = re.compile(r"系(?!统|列)|法(?!律)|界|稿|学院|专业|学(?![习会])|联播|业(?!务|绩)|发言人")
_PAST_JA: Final = re.compile(r"[^。?？]{0,40}(?:た|だった|ました|でした)(?:[、。!！]|$|けど|ので|から|よ|ね)")
_PAST_EN: Final = re.compile(
    r"(?<![a-z])(?:yesterday|last (?:week|month|year|summer|winter)|years? ago|months? ago|used to|back in)(?![a-z])"
)
_OPINION_EN: Final = re.compile(
    r" (?:is|was|has been|looks|feels) (?:so |really |just |pretty |such |too |absolutely )?(?:nice|great|lovely"
    r"|terrible|awful|amazing"
    r"|beautiful|perfect|crazy|horrible|gorgeous|annoying|overrated|dead|a mess|a pain)(?![a-z])"
)
# How a product works, and what people did with it.
_WAS_EN: Final = re.compile(r"^\W{0,6}(?:my|our|his|her|their|the|a|an) (?:[a-z'’]+ ){1,4}(?:was|were|had|[a-z]+ed) ")
_NO_EN: Final = re.compile(r"(?<![a-z])(?:no|enough|stop suggesting[^,.]{0,60}) (?:more )?$")
_WORTH_EN: Final = re.compile(
    r" (?:is |are |still |even |really )*(?:worth|dead|overrated|better|a good|any good|vs|versus)(?![a-z])"
)
_VERSUS_EN: Final = re.compile(r"(?<![a-z])(?:vs\.?|versus|or) $")
# The keyword is of a saying.
_SAYING_EN: Final = re.compile(r"(?<![a-z])(?:no|good|bad|great|happy|sad|old|fake) (?=$)|(?<![a-z])under the $")
# I sprint for the bus.
_DONE_BY: Final = re.compile(r"(?<![a-z])(?:i|we|they|he|she) $")
_WORDING_ZH: Final = re.compile(r"区别|(?:英文|英语|中文|日语)怎么[说讲]|怎么[读拼]|什么意思|由来|这句话|这个词|一词")
# A text that the model is to write itself, or an opinion of it.
_COMPOSED: Final = re.compile(
    r"(?<![a-z])(?:write|draft|compose|discuss|need|give me|suggest|recommend|make up"
    r"|come up with)(?![a-z])[^.?!。]{0,40}"
    r"(?<![a-z])(?:poem|haiku|essay|story|song|words|lines?|limerick|caption|tweet|toast|speech|card|recipe|names?"
    r"|joke|pun|slogan|motto"
    r"|routine|playlist|book|movie|film)(?![a-z])|写[一首篇段个两几]{1,2}[^,。]{0,6}[诗文词句话信稿]|作首诗|聊聊|讲个|编个|翻译[^,。]{0,60}|造句"
)
_OWNED_EN: Final = re.compile(r"(?<![a-z])(?:my|our|the|on|in|from|all|any) $")
_TAKEN_UP: Final = re.compile(r"(?<![a-z])(?:it|there|them|those|these|that)(?![a-z])")
_HOW_EN: Final = re.compile(
    r"(?<![a-z])(?:how|why) (?:do|does|did|is|are|can|should)(?: (?:people|you|i|we))? (?:[a-z]+ )?$"
    r"|(?<![a-z])what (?:is|are|does) $"
)
_TOLD_EN: Final = re.compile(
    r"^\W{0,6}(?:and |but |so |because )?(?:i|we|he|she|they|people|everyone|nobody|my (?:boss|team|company|colleague)"
    r"|our (?:team|company))"
    r" (?!need|want|wanna|have to|would|could|can|forgot|must|should|['’]d)[a-z]+[^?]{0,160}$"
)


def without_mentions(message: MessageText, row: LanguageRow, hits: Iterable[KeywordHit]) -> Iterator[KeywordHit]:
    """Yield the keywords that ask, without those that the message only mentions."""
    others = _COMPOSED.sub("", _ADVICE_ZH.sub("", message.plain))
    composed = len(others) != len(message.plain)
    wanted = _WANTS.search(others) is not None or _orders(row, others)
    # In other languages the words of a statement are not known, but a product is no word of theirs.
    tells = not wanted and row.code in ("de", "fr", "es")
    return (
        hit
        for hit in hits
        if not (
            tells
            and (_is_product(message.plain[hit.start : hit.end]) or row.refusing_behind.search(message.plain, hit.end))
        )
        and not _is_only_mentioned(message, hit, wanted=wanted, composed=composed)
    )


def _orders(row: LanguageRow, text: str) -> bool:
    """Tell whether one of the first clauses of a text orders something."""
    clauses = _STOP.split(text, _CLAUSES_READ)[:_CLAUSES_READ]
    if row.code == "en":
        return any(orders_anything(clause[:NEAR]) for clause in clauses)
    return any(row.ordered.match(clause[:NEAR]) or row.asking.search(clause[:NEAR]) for clause in clauses)


def _is_only_mentioned(message: MessageText, hit: KeywordHit, *, wanted: bool, composed: bool) -> bool:
    """Tell whether the message only mentions a keyword.

    `wanted`: it asks or orders something; `composed`: it orders a text or seeks advice.
    """
    begin, stop = clause_around(message, hit.start, hit.end)
    before = message.plain[max(begin, hit.start - NEAR) : hit.start]
    after = message.plain[hit.end : min(stop, hit.end + NEAR)]
    if is_forbidden(before) or is_material(message, hit.start, hit.end) or _is_quoted(message, hit.start):
        return True
    if _is_another_word(before, after) or _OPINION_ZH.match(after) or _DROPPED_ZH.search(before):
        return True
    product = _is_product(message.plain[hit.start : hit.end])
    if product and (_HOW_EN.search(before) or _VERSUS_EN.search(before) or _ITSELF.search(after)):
        return True
    if (
        _PAST_ZH.search(before)
        and _ENDED_ZH.search(message.plain[hit.end : hit.end + NEAR])
        and not _ORDERED_ZH.search(message.plain)
    ):
        return True
    if _WANTS.search(_COMPOSED.sub("", f"{before}{after}{message.plain[stop : stop + 1]}")):
        return False
    if composed and not wanted:
        return True
    if not wanted and (
        _tells(before, after, message.plain[hit.end : hit.end + NEAR]) or (product and is_mention(after))
    ):
        return True
    told = product and _TOLD_EN.match(before) is not None and not _OWNED_EN.search(before)
    return told and not (wanted and _TAKEN_UP.search(message.plain, stop))


def _is_another_word(before: str, after: str) -> bool:
    """Tell whether the words around a keyword give it another sense: 新闻系, no news, worth learning."""
    return (
        _LONGER_ZH.match(after) is not None
        or _NO_EN.search(before) is not None
        or _SAYING_EN.search(before) is not None
        or _DONE_BY.search(before) is not None
        or _WORDING_ZH.search(after) is not None
        or _WORTH_EN.match(after) is not None
    )


def _tells(before: str, after: str, rest: str) -> bool:
    """Tell whether a clause, without a question or an order in the message, is about the past or an opinion."""
    if _ENDED_ZH.search(after) or (_PAST_ZH.search(before) and "了" in before):
        return True
    if _PAST_JA.match(rest) and re.search(r"[\u3040-\u30ff]", rest):
        return True
    if _WAS_EN.match(before) or _STATES_EN.search(before + after) or _STATES_ZH.search(before + after):
        return True
    return _OPINION_EN.match(after) is not None or _PAST_EN.search(before + after) is not None


def _is_quoted(message: MessageText, place: int) -> bool:
    return any(start < place < end and end - start >= _QUOTATION for start, end in message.quotes)


def _is_product(keyword: str) -> bool:
    """Tell whether a keyword is no English word, and so the name of a product: jira, k8s."""
    return keyword.isascii() and keyword.isalnum() and rarity().get(stem(keyword), inf) == inf
