"""Find the servers that an English sentence orders or asks something of, wherever the name stands in it.

`places` reads the orders in which the name has its usual place; here the parts of the sentence are weighed: an order or
a question about the state of things, how the name belongs to it, and what speaks against it.

Law: only a name that is hardly anything else counts; a sentence that tells, explains or refuses is no order.
"""

import re
from collections.abc import Iterator
from typing import Final

from aggregator.intent.match.clauses import NEAR, NamedClause, clause_before, clauses_after, clauses_with_servers
from aggregator.intent.match.explicit import NamedCall
from aggregator.intent.match.held import is_held, mentions_thing, next_word
from aggregator.intent.match.languages import is_order
from aggregator.intent.match.names import ToolNames
from aggregator.intent.match.phrasing import is_mention
from aggregator.intent.match.places import names_a_work
from aggregator.intent.match.slots import end_of
from aggregator.intent.match.text import ADDRESS, MessageText
from aggregator.intent.match.words import any_of, word_set

_STOPS: Final = (".", "!", "?", "\n")
# Clauses after that of a name in which an order about it may follow.
_CLAUSES_AFTER: Final = 3

_OPENED: Final = rf"\W{{0,6}}(?:{any_of('greetings', 'openers')}\W{{1,4}}){{0,5}}"
_SOFTLY: Final = r"(?:(?:please|pls|also|just|quickly|maybe|kindly|possibly|go|now|then|help me|help us) ){0,2}"
_VERB: Final = any_of("imperatives", "commands")
# A verb, not the noun of a sentence: the build is red.
_ORDER: Final = re.compile(
    rf"{_OPENED}{_SOFTLY}(?!(?:can|could|would) (?:you|we)(?![a-z]))(?P<verb>{_VERB})"
    r"(?![a-z'’-]| (?:source|sure|letter|secret)(?![a-z]))"
)
_POLITE: Final = re.compile(
    rf"{_OPENED}{any_of('asking-politely')} {_SOFTLY}(?!{any_of('works-of-words')})(?P<verb>[a-z]{{2,18}})(?![a-z])"
)
# Any word before the thing of a server: bounce the kubernetes ingress.
_ANY_ORDER: Final = re.compile(rf"{_OPENED}(?P<verb>[a-z]{{3,12}}) (?:the|my|our|that|those) ")
# Any word with its object: freeze the branch, retake it.
_ANY_HEAD: Final = re.compile(
    rf"{_OPENED}(?P<verb>[a-z]{{3,12}}) (?:the|my|our|this|that|those|these|all|it|them)(?![a-z])"
)
_LOVELY: Final = re.compile(
    r"(?<![a-z])would (?:help|do)(?![a-z])|(?<![a-z])would be (?:lovely|great|nice|helpful|handy|perfect|awesome"
    r"|appreciated)(?![a-z])"
)
_WISH: Final = re.compile(
    rf"{_OPENED}{any_of('wishing')}(?! to (?:learn|switch|move|migrate|leave|quit|try|buy|use|understand|stop|say|talk"
    r"|think|work|become|avoid|go)(?![a-z])| (?:help|advice|tips|you to explain)(?![a-z]))"
)
# In the middle of a sentence without stops: looks fine merge the github pull request.
_VERB_INSIDE: Final = re.compile(rf"(?<=[a-z0-9] )(?P<verb>{_VERB}) (?:(?:the|my|our|this|that|these|those|me the) )?$")
_DET: Final = rf"(?:(?:{any_of('before-things')}|\d{{1,4}}) ){{0,4}}"
_PLACED: Final = re.compile(rf"(?:{any_of('placing')}|(?<![a-z])w/) ?{_DET}$|\($|(?:→|->|=>) ?$")
_OPENING: Final = re.compile(_OPENED)
_LEAD: Final = re.compile(rf"{_OPENED}{_DET}")
_PLACED_ONLY: Final = re.compile(
    rf"\W{{0,6}}(?:(?:preferably|ideally|maybe|just|and|all) )?(?:with|using|via|through|thru|in|inside|on|into|onto"
    rf"|from|over in|w) {_DET}"
)
_MINE: Final = re.compile(r"(?<![a-z])(?:my|our|the|this|that|these|those|all)(?: [a-z]+){0,2} $")
_MEANS: Final = re.compile(rf"(?<![a-z])(?:with|using|via|through|thru|w|w/|have|let) {_DET}$")
# Can't open metabase: what is to be done there may follow.
_CANNOT_OPEN: Final = re.compile(
    r"(?<![a-z])(?:can['’]?t|cannot) (?:even )?(?:make sense of|figure out|read|work out|open|reach|access|check|see"
    r"|find|get (?:on |in)?to|log (?:in)?to) "
)
# What is written about a server, or likened to it.
_ABOUT: Final = re.compile(
    r"(?<![a-z])(?:about|(?<!['’]d )(?<!would )like|than|as|versus|vs\.?|or|called|named|(?<!out )(?<!off )of"
    r"|(?:for|of) an?|between|without|instead of) (?:the )?$"
    r"|(?<![a-z])(?:alternatives?|competitors?|equivalents?|similar|compared|letter|ode|moved|moving|migrated"
    r"|switch(?:ed|ing)?|replacement) (?:to|of|for|from) (?:the )?$"
    r"|(?<![a-z])(?:saying|stating|announcing|claiming)(?![a-z])"
)
# The last lines of the heroku log.
_PART_OF: Final = re.compile(
    r"(?<![a-z])(?:lines?|rows?|copy|list|names?|number|count|contents?|state|status|size|owners?|screenshot) of "
    r"(?:the|my|our) $"
)
_HOW: Final = re.compile(
    r"(?<![a-z])how (?!many|much|long|often|far|old|(?:is|are|do) (?:my|our|the))(?:[a-z]+)|(?<![a-z])(?:whether to"
    r"|what (?:is|are) (?:a|an) )"
)
_TOLD: Final = re.compile(
    r"(?<![a-z])(?:i|we|he|she|they|people|everyone|nobody|somebody) "
    r"(?!want|need|wanna|gotta|can |could |have (?:in|on|open|any)|do |got )[a-z]+"
)
_FOR_A_SPIN: Final = re.compile(r"(?: for)? an? (?:quick |little )?(?:try|go|spin|shot|whirl)(?![a-z])")
_FINITE: Final = re.compile(r" (?:is|are|was|were|had|keeps|looks|seems|does) ")
_WH: Final = re.compile(r"(?<![a-z])(?:what|whats|which|who|whose|how|why|if|whether|that|where|when)(?![a-z])")
_ASKED: Final = re.compile(
    rf"{_OPENED}(?:what|whats|which|who|whos|whose|how many|how much|how long|how is|how are|hows|how|why did|why is"
    rf"|why are|when|where|is|are|was|were|did|does|do|has|have|any"
    r"|anything|anyone|got any|status of|see)(?:['’]s|['’]re)?(?![a-z])(?! you(?! see)(?![a-z])| i (?:need|have to"
    r"|use)(?![a-z]))"
)
_NEWS: Final = re.compile(r" (?:new|trending|happening|going on|up|wrong|hot)(?![a-z])(?!.* (?:my|our) )")
# Who's watching PROJ-88.
_DOES_NOW: Final = re.compile(
    rf"{_OPENED}(?:who(?:['’]?s)? (?!at |from |founded|invented)|(?:what|which) [^,.]{{0,60}}(?:[a-z]+-\d|#\d"
    rf"|[a-z]_[a-z]))"
)
# Did the nightly dbt run finish?
_DID_IT: Final = re.compile(rf"{_OPENED}(?:did|has|have|was|were|is|are|why (?:did|is|are)) (?:the|our|my|all) ")
# How's our elasticache doing?
_FARES: Final = re.compile(r" (?:doing|holding up|looking|coping|running|alive|healthy|okay|ok|up|back)(?![a-z])")
_STATE: Final = re.compile(any_of("there-now"))
_ITSELF: Final = re.compile(any_of("about-itself"))
_SAID_TO: Final = re.compile(r"(?: please| pls| server)? ?(?P<sign>[-=]?>|[:,—–→|-]|\.{2,})\s*")
_ARROWED: Final = re.compile(r" ?(?:[-=]?>|[→|])")
# One for metabase: how many refunds?
_ADDRESSED: Final = re.compile(
    r"\W{0,6}(?:[a-z]+ ){0,3}(?:one|task|question|request|thing|errand)s? for (?:the |our )?"
)
# Tavily this: the name as the verb.
_AS_VERB: Final = re.compile(
    r" (?:(?:it|them|(?:the|this|that|our|my) (?:[\w-]+ ){0,2}(?:site|page|docs|url|link|blog|pages|homepage|article"
    r"|post))|(?:this|that|these|those)(?: (?:page|site|link|url|one|pages|sites|links|guy|thing))?)"
    r"(?:\s*$| (?:and|n|for|please|pls|plz|then|to see)(?![a-z]))"
)
_STRAIGHT_QUESTION: Final = re.compile(
    r" (?:how (?:many|much|long|far)|what(?:['’]?s)?|which|who(?:['’]?s)?|any|where(?:['’]?s)?|when)(?! (?:is|are"
    r"|the hell|a|an)(?![a-z]))(?![a-z])"
)
_STRAIGHT_ORDER: Final = re.compile(
    rf" {_VERB} (?:the|my|our|all|me|us|this|that|these|those|for|every|any|a|an|it|them|[a-z]+[-_/][\w-]+"
    rf"|[a-z]{{2,20}}s)(?![a-z])"
)
# Elevenlabs needs to read this out.
_NEEDS_TO: Final = re.compile(rf" (?:needs?|has) to {_VERB} (?:this|these)(?![a-z])")
_WANTED_NOUN: Final = re.compile(
    r"\W{0,6}(?:every|each|top|list|count|total|number of|nearest|closest|latest|last|all|any|my|our|new|open|current"
    r"|today['’]?s|distance|route|directions|next)(?![a-z])"
)
# Gitlab, github and bitbucket.
_OF_A_LIST: Final = re.compile(r", ?[\w-]{2,20} (?:and|or)(?![a-z])|,? (?:and|or)(?![a-z])")
# Whats eating memory; how long on foot.
_EATING: Final = re.compile(
    r"\W{0,4}(?:whats?(?:['’]s)?|who(?:['’]?s)?|where(?:['’]?s)?|which|how (?:many|much|long|far|often)|any)(?![a-z])"
    r"(?! (?:the|a|an|your|do you)(?![a-z]))"
)
# This csv -> clickhouse.
_ARROW: Final = re.compile(r"[\w)] ?(?:→|->|=>) ?$")
_PLEASE: Final = re.compile(r"(?<![a-z])(?:please|pls|plz|thanks|thx|ty)\W*$")
_ABOUT_IT: Final = re.compile(r"(?<![a-z])(?:its|em|it|them|that|this|those|these|there|one|ones)(?![a-z])")
_UNTOUCHED: Final = re.compile(r"(?<![a-z])(?:the|my|our) (?:[a-z]+ )?$")
_ABOUT_IT_ONLY: Final = re.compile(
    r"(?<!rid )(?<![a-z])(?:about|on|of|like) (?:it|them|that|this|those|these)(?![a-z])"
)
_REFUSED: Final = re.compile(
    r"(?<![a-z])(?:don['’]?t|do not|never|without|stop|avoid|cannot|can['’]?t|won['’]?t|(?:should|would)n['’]?t"
    r"|instead of|rather than|leave|no need|not(?! sure))(?![a-z])"
)
# Mind checking heroku.
_BARE_VERB: Final = re.compile(r"(?<=[a-z]{3})ing$")
# Orders to look into a server: whatever follows its name.
_LOOKS: Final = frozenset(("check", "ask", "query", "search", "poke", "ping", "consult", "scour", "double check"))
# Orders passed on: have it tell us; and questions to the server itself: can it tell us.
_PASSED_ON: Final = re.compile(r"(?:^\W{0,6}|[a-z0-9][ ,]{1,3})(?:have|let|get|make|ask|tell) (?:the )?$")
_PASSED_VERB: Final = re.compile(
    rf" (?:(?:mcp )?server )?(?:to )?(?:{any_of('imperatives', 'commands')}|echo|[a-z]+_[a-z_]+|tell|hunt|count"
    rf"|answer)(?![a-z])(?! (?:is|was|be)(?![a-z]))"
)
# I'd like tavily to dig into this.
_WISHED_OF_IT: Final = re.compile(rf"(?:^|(?<=[\s,])){any_of('wishing')} (?:the )?$")
_TO_DO: Final = re.compile(
    r" (?:mcp )?(?:server )?to (?!be|stay|work|support|offer|have|become|stop|get|cost|go|feel|disappear"
    r"|die|vanish|improve|grow|change)[a-z]{2,}"
)
_SEE_WHAT: Final = re.compile(
    r"(?<![a-z])(?:curious|wondering|see|show (?:me|us)|tell (?:me|us)|check|find out|get|grab|give me|know"
    r"|hear) what(?:ever)? (?:the )?$"
)
_TURNS_UP: Final = re.compile(
    r" (?:calls|lists|reports|stores"
    r"|digs up|pulls up|shows|turns up|comes up|finds?|says?|has|knows|returns|gives|thinks|makes of|can find"
    r"|can dig)(?![a-z])"
)
_CAN_IT: Final = re.compile(rf"{_OPENED}(?:can|could|would|will|does|might) (?:the )?$")
_TELLS_US: Final = re.compile(
    r" (?:be able to )?(?:please )?(?:tell|show|give|find|list|look|check|pull|get|fetch|grab|dig|read|see|say|remind"
    rf"|know|have) (?:{ADDRESS}|us|me|what|whats|who|the|whether|if|which|how|any|anything|something|a|an|for"
    r"|up|out|into|my|our|all|this|that|these|those|it)(?![a-z])"
)
_WHAT_IT: Final = re.compile(rf"{_OPENED}(?:what|whats|what's|anything) (?:does |do |did |has |the ){{0,2}}$")
_SAYS: Final = re.compile(
    r" (?:log|record|find|report|catch|print|say|says|have|has|got|know|knows|think|return|show|report|list)(?![a-z])"
)
# A statement that points at the server: clickhouse has it, n8n runs it.
_POINTED: Final = re.compile(
    r" (?:access |server |tool |connector )?(?:(?:should|would|will|might|must)(?: still)? have"
    r"|(?:still )?(?:has|holds|keeps|knows|got|runs)"
    r"(?: (?:it|them|that|those|these|the|all|everything|both|my|our)(?![a-z])|\s*$)"
    r"|(?:should|would|will) know|(?:can|should|could|will) (?:tell|show|say|help)"
    r"|is (?:on|up|connected|open|hooked up|available|set up|logged in|where)"
    r"(?= ?$| (?:it|that|we|i|the|my|now)(?![a-z])))(?![a-z])"
)
# Somewhere in the AWS docs there's a limit: find me the number.
_LIES_THERE: Final = re.compile(
    r" (?:there(?:['’]?s| is| are| (?:should|must) be)|(?:is|are|sits?|lives?|hides?) (?:an?|the|my|our|some))(?![a-z])"
)
# The readme on github is out of date: replace the first line.
_IN_TROUBLE: Final = re.compile(r" (?:is|are|has|have|needs?|looks?|shows?|got|still|keeps?|went)(?![a-z])")
# If heroku shows more than two, scale it back; whatever heroku logged, paste it here.
_IF: Final = re.compile(
    r"\W{0,6}(?:and |so |but )?(?:if|when|once|in case|as soon as|unless|whatever|everything|anything) (?:the )?"
)
_NOW: Final = re.compile(
    r"(?: (?:against|over|across|through|around|after|before|about|to|out|up|into|when|while|because|why|how many"
    r"|where|whether|instead|first|real|quick|right now|now|today|currently|please|pls|again|since|at|so|for|from|by"
    r"|on|in|with|that|which|who|what|and|n|to|if|there|here|is|are|has|this|last|yet|still)(?![a-z]))|\s*$"
)


def find_sentences(message: MessageText, names: ToolNames) -> Iterator[NamedCall]:
    """Yield the servers of which a sentence orders or asks something."""
    for clause in clauses_with_servers(message, names):
        if _is_asked(message, names, clause):
            yield NamedCall(clause.start, end_of(message, clause.named), clause.named, "server")


def _is_asked(message: MessageText, names: ToolNames, clause: NamedClause) -> bool:
    before, after = clause.before, clause.after
    if _speaks_of_it(before, after) or message.quoted(clause.place):
        return False
    held = is_held(names, clause)
    if not held and next_word(clause) in word_set("about-products"):
        return False
    if _orders(before) and _belongs(clause, held):
        return True
    if _orders_any(before) and _PLACED.search(before):
        return True
    if held and (_is_any_order(before) or _LOVELY.search(after)):
        return True
    return (
        _is_object_inside(clause, held)
        or _is_passed_on(clause)
        or _asks_for_state(message, clause, held)
        or _is_spoken_to(message, names, clause)
        or _is_brief(message, clause, held)
        or _ARROW.search(before) is not None
        or _is_tag(message, clause)
        or _goes_before_order(message, names, clause, held)
        or _goes_on_after_order(message, clause)
    )


def _speaks_of_it(before: str, after: str) -> bool:
    """Tell whether the clause refuses, explains, or is about the product."""
    head = _CANNOT_OPEN.sub("", before)
    if _REFUSED.search(head) or _ABOUT.search(_PART_OF.sub("", head)):
        return True
    return _MEANS.search(before) is None and names_a_work(before)


def _orders(before: str) -> bool:
    order = _ORDER.match(before) or _POLITE.match(before)
    if order is None:
        return _WISH.match(before) is not None and not _HOW.search(before)
    rest = before[order.end() :]
    if _HOW.search(rest):
        return False
    finite = _FINITE.search(rest)
    return finite is None or _WH.search(rest, 0, finite.start() + 1) is not None


def _is_any_order(before: str) -> bool:
    """Tell whether one word stands before the thing that is no small word, and so an order: `bounce the ...`."""
    order = _ANY_ORDER.fullmatch(before)
    return order is not None and _can_order(order["verb"])


def _orders_any(text: str) -> bool:
    """Tell whether a clause begins with one word that is no small word and its object, and so orders something."""
    order = _ANY_HEAD.match(text)
    return order is not None and _can_order(order["verb"]) and _FINITE.search(text) is None


def _can_order(verb: str) -> bool:
    known = any(verb in word_set(words) for words in ("works-of-words", "no-deeds", "no-verb-after", "placing"))
    return is_order(verb) and not known and not verb.endswith(("ed", "ing", "s", "ly"))


def _belongs(clause: NamedClause, held: bool) -> bool:
    """Tell whether the name is the place or the means of an order, or says whose thing it is about."""
    if is_mention(clause.after) and not _WH.search(clause.before):
        return False
    if _PLACED.search(clause.before):
        return True
    if _FOR_A_SPIN.match(clause.after):
        return True
    order = _ORDER.match(clause.before) or _POLITE.match(clause.before)
    if held:
        return order is None or order["verb"] not in word_set("no-deeds")
    if order is None:
        return False
    verb, rest = _BARE_VERB.sub("", order["verb"]), clause.before[order.end() :].strip()
    if rest == "the" and clause.named.tools:
        # Check the weather: the tool of that name.
        return verb in {*_LOOKS, "look up"} and _NOW.match(clause.after) is not None
    if rest:
        return False
    return verb in _LOOKS or (order["verb"] in word_set("consulting") and _NOW.match(clause.after) is not None)


def _is_object_inside(clause: NamedClause, held: bool) -> bool:
    """Tell whether an order without a stop before it ends in the name: `looks fine merge the github pull request`."""
    order = _VERB_INSIDE.search(clause.before)
    if order is None or is_mention(clause.after) or _ASKED.match(clause.before):
        return False
    words = clause.before[: order.start()].split()
    if (
        not words
        or words[-1] in word_set("no-verb-after")
        or (words[-1].endswith("s") and words[-1] not in ("pls", "thanks", "this"))
    ):
        return False
    return held or (order["verb"] in word_set("consulting") and _NOW.match(clause.after) is not None)


def _is_passed_on(clause: NamedClause) -> bool:
    """Tell whether the server itself is to do something: `have clickhouse tell us`, `what does github say`."""
    before, after = clause.before, clause.after
    if _PASSED_ON.search(before):
        words = before.split()[:-1]
        free = not words or words[-1] not in word_set("no-verb-after") or words[-1] in ("to", "you")
        return free and _PASSED_VERB.match(after) is not None
    if _SEE_WHAT.search(before) and _TURNS_UP.match(after):
        return True
    if _WISHED_OF_IT.search(before):
        return _TO_DO.match(after) is not None
    if _CAN_IT.fullmatch(before):
        return _TELLS_US.match(after) is not None
    return _WHAT_IT.fullmatch(before) is not None and _SAYS.match(after) is not None and not _ITSELF.search(after)


def _asks_for_state(message: MessageText, clause: NamedClause, held: bool) -> bool:
    """Tell whether the clause asks what the server holds: `any azure clusters still up?`, `what's open in jira?`."""
    before, after = clause.before, clause.after
    asked = _ASKED.match(before)
    if (
        asked is None
        or _NEWS.match(before, asked.end())
        or _HOW.search(before)
        or _ITSELF.search(before)
        or _ITSELF.search(after)
    ):
        return False
    if _FARES.match(after) and _MINE.search(before):
        return True
    if not (held or _PLACED.search(before)):
        return False
    if _DOES_NOW.match(before) or (held and _DID_IT.match(before)):
        return True
    return _STATE.search(before, asked.end()) is not None or _STATE.search(after) is not None


def _is_spoken_to(message: MessageText, names: ToolNames, clause: NamedClause) -> bool:
    """Tell whether the sentence begins with the name, and an order or a question follows: `clickhouse - how many`."""
    if clause.before.strip(" \"'`(*.") and not any(
        pattern.fullmatch(clause.before) for pattern in (_OPENING, _ADDRESSED)
    ):
        return False
    if _AS_VERB.match(clause.after):
        return True
    if clause.after.strip() not in ("", "please", "pls", "server") and not _ARROWED.match(clause.after):
        return _goes_straight_on(clause)
    said = _SAID_TO.match(message.plain, end_of(message, clause.named))
    if said is None:
        return False
    rest = message.plain[said.end() : said.end() + NEAR]
    if orders_anything(rest):
        return not rest.lstrip().startswith("make sure")
    if said["sign"] == ",":
        later = clauses_after(message, said.end(), _CLAUSES_AFTER)
        wanted = _PLEASE.search(message.plain) is not None or any(orders_anything(text) for text in later)
        return wanted and is_held(names, clause._replace(after=rest))
    return said["sign"] in (":", "->", "=>", ">", "→", "|") and (
        is_held(names, clause._replace(after=rest)) or _asks_anything(rest) or _WANTED_NOUN.match(rest) is not None
    )


def _goes_straight_on(clause: NamedClause) -> bool:
    """Tell whether an order or a question follows the name at once: `google maps how long to leeds`."""
    after = clause.after
    if _STRAIGHT_QUESTION.match(after):
        return _ITSELF.search(after) is None
    order = _STRAIGHT_ORDER.match(after) or _NEEDS_TO.match(after)
    return order is not None and not is_mention(after[order.end() :]) and _FINITE.search(after) is None


def _asks_anything(text: str) -> bool:
    return _ASKED.match(text) is not None and not (_HOW.search(text) or _ITSELF.search(text))


def orders_anything(text: str) -> bool:
    """Tell whether a clause orders or wishes something."""
    order = _ORDER.match(text) or _POLITE.match(text) or _WISH.match(text)
    return order is not None and not _HOW.match(text)


def _is_brief(message: MessageText, clause: NamedClause, held: bool) -> bool:
    """Tell whether the whole sentence is a thing of the server and a please: `heroku logs please`."""
    alone = not clause.before.strip() and clause.after.strip() in ("please", "pls")
    if alone and not message.plain[clause.end :].strip(" .!"):
        # You'd better look it up, tavily please.
        return True
    if not held or not _LEAD.fullmatch(clause.before):
        return False
    return _PLEASE.search(clause.after) is not None or message.plain.startswith("?", clause.end)


def _is_tag(message: MessageText, clause: NamedClause) -> bool:
    """Tell whether the clause is the name alone beside an order: `read it aloud, elevenlabs, some deep voice`."""
    if clause.before.strip() or clause.after.strip():
        return False
    text = clause_before(message, clause.start)
    order = _ORDER.match(text)
    if order is not None and order["verb"] not in word_set("no-deeds"):
        return not _OF_A_LIST.match(message.plain, clause.end)
    within = text.strip() and message.plain[: clause.start].rstrip()[-1:] not in _STOPS
    if within or message.plain[clause.end : clause.end + 1] != ",":
        return False
    following = clauses_after(message, clause.end, _CLAUSES_AFTER)
    return any(_EATING.match(text) and not _ITSELF.search(text) for text in following)


def _goes_before_order(message: MessageText, names: ToolNames, clause: NamedClause, held: bool) -> bool:
    """Tell whether an order about a thing of the server follows: `my heroku app is slow, can you restart it?`."""
    before, after = clause.before, clause.after
    definite = _UNTOUCHED.search(before) is not None and (not after.strip() or after.startswith(" since"))
    if _ITSELF.search(after) or (_TOLD.search(before) and not definite):
        return False
    named_first = not before.strip()
    pointed = named_first and _POINTED.match(after) is not None
    mine = (
        (held and (named_first or _MINE.search(before)))
        or _PLACED.search(before)
        or is_mention(after)
        or _CANNOT_OPEN.search(before)
        or _IF.fullmatch(before)
        or definite
    )
    if not (mine or pointed):
        return False
    return any(
        _takes_up(names, clause, text, pointed=pointed) for text in clauses_after(message, clause.end, _CLAUSES_AFTER)
    )


def _takes_up(names: ToolNames, clause: NamedClause, text: str, *, pointed: bool) -> bool:
    """Tell whether a later clause orders or asks something of the thing that was spoken of."""
    order = _ORDER.match(text) or _POLITE.match(text)
    if order is None and _orders_any(text):
        return _ABOUT_IT.search(text) is not None and not _ABOUT_IT_ONLY.search(text)
    if order is None:
        asked = _ASKED.match(text)
        return (
            asked is not None
            and not (_HOW.search(text) or _ITSELF.search(text))
            and mentions_thing(names, clause, text)
        )
    if order["verb"] in word_set("works-of-words") or order["verb"] in ("make", "write"):
        return pointed and order["verb"] == "make"
    rest = text[order.end() :]
    if order["verb"] in word_set("mending") and _IN_TROUBLE.match(clause.after) and _PLACED.search(clause.before):
        return True
    if order["verb"] in word_set("finding") and _LIES_THERE.match(clause.after):
        return True
    about = _ABOUT_IT.search(rest) is not None and not _ABOUT_IT_ONLY.search(rest)
    return pointed or about or mentions_thing(names, clause, rest)


def _goes_on_after_order(message: MessageText, clause: NamedClause) -> bool:
    """Tell whether the clause only adds the place to an order before it: `count them, with clickhouse`."""
    placed = _PLACED_ONLY.fullmatch(clause.before) is not None and _NOW.match(clause.after) is not None
    rest = message.plain[clause.end :].strip()
    alone = not clause.before.strip() and not clause.after.strip() and rest in ("", ".", "!", "?")
    pointed = not clause.before.strip() and _POINTED.match(clause.after) is not None
    if not (placed or alone or pointed):
        return False
    text = clause_before(message, clause.start)
    return orders_anything(text) or (pointed and _asks_anything(text))
