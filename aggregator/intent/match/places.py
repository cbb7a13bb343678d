"""Find the requests to a server where something is to be done: `notion 里新建一页`, `create a page in notion`.

Law: a clause that begins with the request; what tells, asks or only speaks of the server is none.
"""

import re
from collections.abc import Iterator
from itertools import islice
from typing import Final

from aggregator.intent.match.explicit import NamedCall
from aggregator.intent.match.names import NameHit, ToolNames
from aggregator.intent.match.phrasing import is_mention
from aggregator.intent.match.slots import end_of, has_possessive, name_at
from aggregator.intent.match.text import ADDRESS, MessageText
from aggregator.intent.match.words import any_of

_CLAUSES_READ: Final = 60
_PLACES_READ: Final = 8
# Words of a clause that are searched for the place where something is put.
_WORDS_READ: Final = 60
_BEGINNING: Final = rf"\s*(?:{any_of('greetings')}\s*){{0,4}}"
_IN_ZH: Final = re.compile(
    rf"{_BEGINNING}(?:能不能|能否|可否|可以)?(?:帮我们?|给我|替我)?\s*(?P<to>在|去|到|往|上|从|拿|把|将)?(?P<look>{any_of('看那里')})?\s*"
)
_INSIDE: Final = r"\s*(?:里面|里边|里头|上面|里|中|上|内)"
_HOW_ZH: Final = r"(?![^,。]{0,20}(?:怎么|如何|多少钱|教程|文档|官网))"
# 里, and what is to be done there; 新建的页面 and 写了一页 say what is there or was done.
_DOING: Final = (
    rf"\s*(?:帮我们?|给我|替我|给[^,。 ]{{1,6}}?|再|先|直接|也)?\s*{any_of('那里做')}(?![了过的着到完])"
    r"(?![^,。]{0,20}(?:吗|呢|么|怎么|如何|多少|什么|多久))"
)
_DONE_THERE: Final = re.compile(_INSIDE + _DOING)
# 去 X 搜一个, 从 X 拉: without 里.
_DONE: Final = re.compile(rf"(?:{_INSIDE})?{_DOING}")
# X 搜一下: said to the server itself.
_TOLD_TO_DO: Final = re.compile(rf"\s*{any_of('那里做')}(?:(?:一下|下|一查|一搜)(?![了过的])|$)")
# 把 X 上的页面加到四个.
_OF_IT: Final = re.compile(rf"{_INSIDE}的[^,。]{{2,}}")
# What must follow the server after a word for the direction.
_AFTER: Final = {None: _TOLD_TO_DO, "在": _DONE_THERE, "把": _OF_IT, "将": _OF_IT}
# 看看 X 里哪些, 看一眼 X 有没有, 看下 X 上的日志.
_SEEN: Final = re.compile(rf"(?:{_INSIDE}(?!的)|\s*上面?的(?=[^,。]{{2}})|\s*有没有|\s*有[什哪]){_HOW_ZH}[^,。]")
# X 里现在有几个.
_NOW_THERE: Final = re.compile(rf"{_INSIDE}(?:现在|目前|当前|此刻|今天)(?:还|都|正)?(?:有|在)(?!人){_HOW_ZH}[^,。]")
_SAID: Final = re.compile(rf"(?:{_INSIDE})?\s*(?:(?:对|关于)[^,。]{{1,24}})?是?(?:怎么[说看讲]|有什么说法)$")
# 把这些存进 X.
_PUT_INTO: Final = re.compile(
    rf"{_BEGINNING}(?:帮我们?|给我)?[把将][^,。]{{1,40}}{any_of('放到')}(?:进|到|入|在|去)? ?$"
)
_ORDER: Final = re.compile(
    rf"{_BEGINNING}(?:(?:{any_of('polite')}) (?:please )?)?{any_of('imperatives')}(?![a-z]| source(?![a-z]))"
)
_SEARCHED: Final = re.compile(
    rf"{_BEGINNING}(?:(?:{any_of('polite')}) )?(?:search|query|check) (?:the |in |on |through )?"
)
_BY: Final = re.compile(
    r"(?<![a-z])(?:with|using|via|through|in|on|into|onto|to|from|out of|off|at|against) (?:the |my |our )?"
)
# An order about a thing that the server has: restart my heroku app. A text that the model would write is no such thing.
_THING: Final = re.compile(
    r"(?: (?:me|us|up|out|down|over))? (?:(?:all )?(?:the|my|our|this|that|these|those)|all|every)"
    r"(?: (?:latest|last|newest|oldest|recent|current|open|closed|failed|failing|new|old|two|three|five|ten|\d{1,4}))"
    r"{0,2} "
)
# create a new n8n workflow, do a quick tavily search: a thing that the server is to make.
_NEW_THING: Final = re.compile(r" (?:an?|another)(?: (?:new|quick|fresh|second))? ")
_HELD: Final = re.compile(any_of("things"))
_NOT_DONE: Final = re.compile(
    r"(?<![a-z])(?:write|draw|generate|compare|remember|note|plan|book|see|make|build|test|clone|play|find|take|have|go"
    r"|look|think|translate|comment)(?![a-z])"
)
_NOUN: Final = re.compile(
    r" (?:(?:pull|merge) )?(?P<noun>[a-z]{2,20})(?![\w-])(?: (?:runs|logs|names|data|details|errors)(?![a-z]))?"
    r"(?: (?:sorted|ordered|grouped|filtered|created|opened|assigned|tagged|updated|marked)(?![a-z]))?"
    r"(?! (?:is|are|was|were|has|had|does|doesn)(?![a-z]))"
)
# After the thing: its name or its place, such as staging-api, #12, in the EU region.
_NAMED: Final = re.compile(r" (?:in|of|under|inside|running)(?![a-z])| [\"'`“「]| #?[a-z]{0,20}[-_#\d][\w.-]{0,60}")
_SERVER: Final = re.compile(r" (?:mcp )?server(?![\w-])")
_GOES_ON: Final = re.compile(
    # What of the server it is: the excel file, the jira board.
    r"(?: (?:server|file|sheet|workbook|board|repo|repository|project|wiki|space|dashboard|database|cluster|logs?"
    r"|tickets?|issues?|pages?|cards?|documents?|channel|queue)(?![a-z]))?"
    r"\s*(?:$|[:,]|(?:for|about|called|named|titled|saying|please|now|that says|and|to|that|if|whether|who|what|which"
    r"|where|when|why|how many|these|this|at|by|with|on|from|before|after|until|since|as|then|again|first|instead|right"
    r"|today|tomorrow|so|because|we|i|will you|would you)(?![a-z]))"
)
# firecrawl example.com/docs
_TARGET: Final = re.compile(
    rf" (?:{ADDRESS}|[a-z0-9-]{{1,40}}(?:\.[a-z0-9-]{{1,40}}){{0,3}}"
    r"\.(?:com|org|net|io|dev|ai|app|co|de|fr|es|cn|jp)(?![\w-]))"
)
# What a person does for themselves, or asks about; a work about a server, which is not made with it.
_NOT_THERE: Final = re.compile(
    r"(?<!\w)(?:how(?!['’]?s (?:my|our|the)| (?:many|much|long|far|often|old|(?:is|are) (?:my|our|the)))|why(?! (?:did"
    r"|is|are) (?:my|our))"
    r"|account|profile|login(?! (?:page|form|screen|button))|(?<!failed )(?<!cron )(?<!nightly )(?<!this )(?<!that )job"
    r"|career(?!s? (?:page|site))|(?<!of )course|book|tutorial|article|talk|guide|essay|lesson|speech|joke"
    r"|poem|buch|artikel|kurs|vortrag|gedicht|witz|doku|anleitung|konto|livre|cours|tuto|tutoriel|formation|exposé"
    r"|blague"
    r"|avis(?!e)|poème|libro|curso|artículo|charla|guía|chiste|cuenta|poema|vid[eé]o|vídeo)(?:s|es|e|en)?(?!\w)"
    r"|^\W*(?:(?:write|schreib|sag|écris|escribe)\S*|dis|di(?:me|nos)?)(?: (?:mir|uns|was|etwas|bitte|mal|something))*"
    r" (?:on|über|sur|de) |(?<!\w)(?:write(?! (?:access|permission))|draft|compose)(?: [\w-]{1,20}){1,5} on (?:the )?$"
    r"|(?<!\w)(?:script|function|program|snippet|code|class|module|regex|skript|programm|fonction|programme|función"
    r"|programa) (?:[a-z]+ )?"
    r"(?:that|which|to|calling|using|das|die|qui|que|para|pour) [^,.]*$"
    r"|(?<!\w)(?:alternatives?|competitors?|equivalents?|replacement|open letter|letter|ode) (?:to|of|for) (?:the )?$"
    r"|^\W*(?:schreib|verfass|entwirf|écri[st]|rédige|escrib[ae]|redact)\S*(?: [\w'’-]{1,20}){1,5} (?:über|sur|sobre) $"
)
_SOUGHT: Final = re.compile(r"\s*(?:for|about|whether|if)(?![a-z])")


def find_requests_to_servers(message: MessageText, names: ToolNames) -> Iterator[NamedCall]:
    """Yield the requests that name a server as the place or the means."""
    for clause in islice(message.clauses, _CLAUSES_READ):
        yield from _in_signs(message, names, clause)
        yield from _put_into(message, names, clause)
        yield from _in_english(message, names, clause)
    yield from _spoken_to(message, names)


def names_a_work(text: str) -> bool:
    """Tell whether a text names a work about something, an account or the like, and so no place to work at."""
    return _NOT_THERE.search(text) is not None


def begins_order(message: MessageText, start: int) -> bool:
    """Tell whether an English order begins at a place; `make sure` is none to a server."""
    return _ORDER.match(message.plain, start) is not None and not message.plain.startswith("make sure", start)


def _in_signs(message: MessageText, names: ToolNames, clause: int) -> Iterator[NamedCall]:
    begins = _IN_ZH.match(message.plain, clause)
    if begins is None:
        return
    named = _server_at(message, names, begins.end())
    if named is None or (named.looks == "plain" and not message.words[named.first].text.isascii()):
        return
    end = end_of(message, named)
    after = message.after(end)
    wanted = [] if is_mention(after) else [_DONE_THERE]
    if named.looks != "plain":
        wanted += (_SAID, _NOW_THERE)
        if begins["look"] is not None:
            wanted.append(_SEEN)
        elif not is_mention(after):
            wanted.append(_AFTER.get(begins["to"], _DONE))
    if any(pattern.match(after) for pattern in wanted):
        yield NamedCall(clause, end, named, "server")


def _put_into(message: MessageText, names: ToolNames, clause: int) -> Iterator[NamedCall]:
    """Yield the servers that something is to be put into: `把这三段存进 notion`."""
    inside = message.after(clause)
    if "把" not in inside and "将" not in inside:
        return
    for at in islice(message.words_between(clause, clause + len(inside)), _WORDS_READ):
        word = message.words[at]
        named = _server_at(message, names, word.start) if word.text.isascii() else None
        if named is not None and named.looks != "plain" and _PUT_INTO.match(message.before(word.start)):
            yield NamedCall(clause, end_of(message, named), named, "server")


def _spoken_to(message: MessageText, names: ToolNames) -> Iterator[NamedCall]:
    """Yield the server that a message begins with, if an order or an address follows: `notion: list my pages`."""
    named = _server_at(message, names, message.words[0].start)
    if named is None:
        return
    end = end_of(message, named)
    spoken_to = message.plain.startswith(":", end) and begins_order(message, end + 1)
    if spoken_to or (named.looks != "plain" and _TARGET.match(message.plain, end)):
        yield NamedCall(message.words[0].start, end, named, "server")


def _in_english(message: MessageText, names: ToolNames, clause: int) -> Iterator[NamedCall]:
    searched = _SEARCHED.match(message.plain, clause)
    if searched:
        named = _server_at(message, names, searched.end())
        if named is not None and named.looks != "plain" and _SOUGHT.match(message.after(end_of(message, named))):
            yield NamedCall(clause, end_of(message, named), named, "server")
            return
    order = _ORDER.match(message.plain, clause)
    if order is None:
        return
    thing = _thing_of_server(message, names, clause, order.end())
    if thing is not None:
        yield NamedCall(clause, end_of(message, thing), thing, "server")
        return
    last = order.end() + len(message.after(order.end()))
    for by in islice(_BY.finditer(message.plain, order.end(), last), _PLACES_READ):
        named = _server_at(message, names, by.end())
        if named is None or (named.looks == "plain" and not _SERVER.match(message.after(end_of(message, named)))):
            continue
        if _NOT_THERE.search(message.plain, clause, by.end()):
            return
        after = message.after(end_of(message, named))
        if _GOES_ON.match(after) and not is_mention(after):
            yield NamedCall(clause, end_of(message, named), named, "server")
            return


def _thing_of_server(message: MessageText, names: ToolNames, clause: int, place: int) -> NameHit | None:
    """Return the server that has the thing which an order, up to a place, is about: `restart my heroku app`.

    The noun is one that the names of its tools have: `list_apps`.
    """
    said = _THING.match(message.plain, place)
    new = said is None
    said = said or _NEW_THING.match(message.plain, place)
    named = _server_at(message, names, said.end()) if said is not None else None
    if named is None or named.looks == "plain" or _NOT_DONE.search(message.plain, clause, place):
        return None
    after = message.after(end_of(message, named))
    noun = _NOUN.match(after)
    if noun is None or _NOT_THERE.search(after):
        return None
    rest = after[noun.end() :]
    if not (_GOES_ON.match(rest) or _NAMED.match(rest)):
        return None
    kinds = names.nouns_of(named.servers)
    one = noun["noun"].rstrip("s")
    return named if one in kinds or (not new and _HELD.fullmatch(one)) else None


def _server_at(message: MessageText, names: ToolNames, place: int) -> NameHit | None:
    """Return the name of a server that begins at a place."""
    named = name_at(message, names, place)
    return named if named is not None and named.servers and not has_possessive(message, named) else None
