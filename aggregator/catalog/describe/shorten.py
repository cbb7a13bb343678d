"""Shorten a sentence so that the rest is a sentence still: fillers first, then asides, then whole phrases from its end.

Law: nothing is added but `and more` or `等` in place of the rest of a list; only what cannot be shortened so is cut.
"""

import re
from typing import Final

from aggregator.catalog.describe.markdown import columns, is_cjk
from aggregator.catalog.describe.truncate import truncate, without_asides

# Less than this share of the space says too little, unless nothing longer ends well.
_SHARE: Final = 0.45
_LEAST: Final = 0.25
# What the end of a list, and a cut between two nouns, are less good than the end of a phrase, in columns.
_LIST: Final = 16
_NOUN: Final = 30

_FILLERS: Final = tuple(
    (re.compile(pattern, re.IGNORECASE), instead)
    for pattern, instead in (
        (r"\b(?:detailed|comprehensive|complete|full) (?:information|details)(?= (?:about|on|for|of)\b)", "details"),
        (r"\b(?:detailed|comprehensive) (?=[a-z])", ""),
        (r"\b(?:in order|with the ability) to ", "to "),
        (r"\b(?:one or more|one or multiple) (?=[a-z]+s\b)", ""),
        (r"\bthe (?:specified|provided|given|selected) (?!format\b|by\b|in\b)(?=[a-z])", "the "),
    )
)
_OF_ONE: Final = re.compile(r"\ban? (?:specific|specified|given|particular|single|existing) (?=(\w))", re.IGNORECASE)

_PREPOSITIONS: Final = (
    "to|for|from|in|on|at|with|without|by|via|using|through|into|onto|as|across|within|during|after|before|between"
    "|against|per|under|over|inside|along with|together with|based on|depending on|according to|such as:?|like"
)
_JOINING: Final = "that|which|who|whose|where|when|while|whenever|if|unless|until|because|since|so that|so"
_GERUNDS: Final = (
    "including|containing|matching|returning|showing|covering|excluding|allowing|making|ensuring|providing|enabling"
    "|leveraging|regarding|concerning|supporting|performing|giving|helping|describing|specifying|removing|replacing|offering|featuring|letting"
)
_STARTS: Final = re.compile(
    rf"\s(?=(?:{_PREPOSITIONS}|{_JOINING}|{_GERUNDS})\s)"
    r"|\s(?=(?:[a-z]{3,}(?:ed|own|ven|ten)|left|sent|built|found|set|held|made)\s(?:by|to|with|for|on|in|from|as|via|using|of|through|against)\s)"
    r"|\s(?=available\s(?:in|to|for|on|via|within|from|through|at|by)\s)"
    r"|\s(?=(?:and|or|then|and/or)\s)"
    r"|\s[-–—](?=\s)|—|[;:.!?](?=\s)|\s(?=[(（\[])"
    r"|,(?=\s)"
)
# After a comma, these begin a clause that can be left out; all others may be items of a list.
_CLAUSE: Final = re.compile(
    rf"\s(?:(?:not|then|also|only|optionally|even|e\.g\.|i\.e\.|this|it|they|you|as if|for example|etc)\b"
    rf"|[a-z]{{3,}}(?:ed|ando|iendo)\s"
    rf"|(?:and|or|but)\s(?:\w+ly|not|then|also)\s|(?:{_PREPOSITIONS}|{_JOINING}|{_GERUNDS})\s)",
    re.IGNORECASE,
)
# The rest of a list, up to its last item.
_ENUMERATED: Final = re.compile(r"(?:,\s[^,.;:()]{1,40}){0,8},?\s(?:and|or|and/or|&|etc)\b", re.IGNORECASE)
# Introductions of lists that would be left incomplete.
_EXAMPLE: Final = re.compile(r",? (?:for example|such as|including|like|e\.g\.),? ", re.IGNORECASE)
# Constructions that must not be the end of a text.
_OPEN: Final = re.compile(
    r"(?:^|\s)(?:an?|the|and|or|of|in|on|at|to|for|from|with|by|as|is|are|be|been|was|were|that|which|who|if|when|while"
    r"|where|using|via|into|onto|its?|your|their|our|his|this|these|those|any|all|one|more|such|like|including|based"
    r"|e\.g\.?|i\.e\.?|not|but|can|could|will|would|may|might|must|should|has|have|had|do|does|about|associated|over"
    r"|before|after|between|both|either|neither|whether|within|through|per|than|then|so|also|other|each|every|given"
    r"|specific|specified|particular|existing|able|ability|how|what|why|used|needed|wants?|needs?|able|allowed|up|out"
    r"|available|new|multiple|several|various|comprehensive|detailed|first|last|latest|currently|optionally|and/or"
    r"|only|additional|certain|single|full|known|same|as|because|since|until|unless|without|depending|according"
    r"|related|due|similar|compatible|relevant|required|access|support|\w+ly|taken|seen|you|we|they|\w+['’](?:re|ve|ll)|made|held|given|sent|[a-z]{2,}[^e\W]ed|[-–—&/+])$",
    re.IGNORECASE,
)
# An item of a list, in the middle of it.
_ITEMS: Final = re.compile(r",\s(?!(?:which|that|where|and|or|so|but|not|then)\s)\S+")
# Two adjectives before a noun are no list.
_ADJECTIVES: Final = re.compile(r"(\b(?:an?|the) [\w-]+|\w+-\w+|\w{3,}(?:ed|ive|able)),(?=\s[\w-]+\s\w)")
_ADJECTIVE_LAST: Final = re.compile(r"(?:\b(?:an?|the) [\w-]+|\s\w+(?:-\w+ed|ive|able))$")
# A clause that is whole or nothing.
_WHOLE: Final = re.compile(
    r"\s(?:until|if|when|whenever|while|because|unless|since|where|whose|so that|as if)\s", re.IGNORECASE
)
_RELATIVE: Final = re.compile(r"\s(?:that|which|who)\s(\w+)(?:\s\w+)?$", re.IGNORECASE)
# An aim without its object.
_AIM: Final = re.compile(r"\sto (\w+)$")
_UNFINISHED: Final = re.compile(r"\b(?:between|both|either|neither|whether|from)\s[^,]*$", re.IGNORECASE)
_ASIA: Final = re.compile(r"[，；。：！？、](?!$)|,(?=[^\x00-\x7f])|(?=（)")
_ADVERB: Final = re.compile(r"\s\w{3,}ly$")
_TAIL: Final = " \t,;:，；：、–—-"

_VERBS_AS_TEXT: Final = """
abort accept access acknowledge activate add adjust aggregate allocate allow analyse analyze annotate answer append
apply approve archive ask assess assign assist associate attach audit authenticate authorize autofix automate
backup batch begin block book bookmark browse build bulk bump calculate call cancel capture cast change chart chat
check choose classify clean cleanup clear click clone close collect comment commit compare compile complete compose
compress compute configure confirm connect control convert copy count crawl create crop customize deactivate debug
decode decrement decrypt define delegate delete demonstrate deploy dequeue describe deselect destroy detach detect
determine diagnose diff disable discard disconnect discover dismiss dispatch display download drag drain draw drill
drop dump duplicate echo edit elicit embed emulate enable encode encrypt end enqueue enrich ensure enter enumerate
erase establish estimate evaluate evict examine execute expand explain explore export extend extract favorite fetch
fill filter find finish fix flush follow force forecast fork format forward freeze gather generate geocode get give
go grant group handle hash hide highlight hold hover identify import improve increase increment index infer inform
ingest initialize initiate inject insert inspect install instantiate integrate interact invite invoke isolate issue
join keep kill label launch learn leave like link lint list load locate lock log look lookup make manage map mark
match measure merge migrate mock modify monitor mount move mute navigate normalize notify obtain open optimize
order organize override paginate parse paste patch pause peek perform persist pick pin place plan play poll post
predict preload preview print process produce promote prompt propose protect provide provision prune publish pull
purchase purge push put quarantine query queue read rebase reboot recall receive recognise recognize recommend
recompute reconnect record recover redirect refresh regenerate register reindex reject release reload remember
remove rename render reopen reorder repair replace replicate reply report request require resample rescan reserve
reset resize resolve respond restart restore restrict resume retrieve retry return revert review revoke rewind
rewrite rollback rotate route run sample save scaffold scale scan schedule scrape scroll search see seed select
send serve set setup share show shuffle shut sign simulate sketch skip snapshot snooze solve sort speak specify
spin split stage star start step stitch stop store stream submit subscribe suggest summarise summarize suspend swap
swipe switch sync synchronize synthesize tag tail take tap tell terminate test toggle trace track train transcribe
transfer transform transition translate trigger trim tune turn type unapprove unarchive unassign uncomment undo
unfavorite unfollow uninstall unlink unlock unmerge unpin unprotect unpublish unregister unset unshare unstar
unsubscribe unwatch update upgrade upload upsert use vacuum validate verify view visualize vote wait wake walk warm
watch wipe withdraw wrap write zip zoom
"""

VERBS: Final = frozenset(_VERBS_AS_TEXT.split())


def shorten(text: str, limit: int) -> str:
    """Return at most `limit` columns of a sentence: all of it, whole phrases of it, or words and `…`."""
    if columns(text) <= limit:
        return text
    short = without_fillers(without_asides(without_asides(text)))
    if columns(short) <= limit:
        return short
    return phrases(short, limit) or truncate(text, limit)


def without_fillers(text: str) -> str:
    """Return the text without words that say nothing; `a specific issue` becomes `an issue`."""
    text = _OF_ONE.sub(_article, text)
    for filler, instead in _FILLERS:
        text = filler.sub(instead, text)
    return text[:1].upper() + text[1:] if text[1:2].islower() else text


def phrases(text: str, limit: int) -> str:
    """Return the longest beginning of whole phrases within `limit` columns; empty if none is long enough."""
    if is_cjk(text[:1]) or sum(map(is_cjk, text[:40])) > 8:
        return _asian(text, limit)
    best, most = "", -limit
    for found in _STARTS.finditer(text, 0, limit + 2):
        kept, left = _ADVERB.sub("", text[: found.start()].rstrip(_TAIL)).rstrip(_TAIL), text[found.start() :]
        if not _ends_well(kept, left):
            continue
        ended, cost = _list_ended(kept, left)
        worth = columns(ended) - cost
        if ended and columns(ended) <= limit and worth >= most:
            best, most = ended, worth
    least = _LEAST if len(best.split()) > 2 else _SHARE
    return best if columns(best) >= limit * least else ""


def _list_ended(kept: str, left: str) -> tuple[str, int]:
    """Return a beginning with its list, if it is cut in one, brought to an end; and what that takes from its worth.

    Empty: a list is cut that cannot be ended.
    """
    part = _ADJECTIVES.sub(r"\1", re.split(r"[.:;]\s", kept)[-1])
    closed = re.search(r",.*?,? (?:and|or|and/or) \S", part)
    if left.startswith(","):
        joined = re.match(r",\s(?:and|or|and/or)\s", left)
        words = left.casefold().split(" ", 3)
        last = kept.casefold().rsplit(" ", 1)[-1]
        clause = _CLAUSE.match(left[1:]) or (joined and (closed or "," not in part)) or _aside(words, last, left)
        if clause:
            return (kept, 0) if "," not in part or closed or not _ITEMS.search(part) else ("", 0)
        whole = len(part.split(",")[0].split()) > 2 and not _ADJECTIVE_LAST.search(kept)
        if not whole or closed or is_verb(words[1].strip(",")):
            return "", 0
        # `and more` only of a list: what follows a single comma may be anything.
        return (f"{kept} and more" if "," in part or _ENUMERATED.match(left) else kept), _LIST
    if left.startswith((" and ", " or ", " and/or ", " then ")):
        verb = left.split(" ", 3)[2].casefold().strip(",")
        if "," in part and not closed:
            return "", 0
        return kept, 0 if is_verb(verb) else _NOUN
    # Within a list that has not ended.
    return ("", 0) if "," in part and _ITEMS.search(part) and not closed else (kept, 0)


def _aside(words: list[str], last: str, left: str) -> bool:
    """Tell whether the text after a comma explains the text before it, or is a further step, and no item of a list."""
    if words[1] in ("a", "an", "the") and not re.search(r"\s(?:and|or)\s", left):
        return True
    if len(words) > 2 and words[2] in ("for", "to", "if", "when", "with"):
        return True
    return is_verb(words[1].strip(",")) and not is_verb(last)


def _ends_well(kept: str, left: str) -> bool:
    if len(kept.split()) < 2 or _OPEN.search(kept):
        return False
    if any(kept.count(a) != kept.count(b) for a, b in ("()", "[]", "{}")) or kept.count('"') % 2:
        return False
    if _EXAMPLE.search(kept) or _WHOLE.search(kept):
        return False
    if (aim := _AIM.search(kept)) and is_verb(aim[1].casefold()):
        return False
    if (found := _RELATIVE.search(kept)) and not is_verb(found[1].casefold()):
        return False
    return not (left.startswith((" and ", " or ")) and _UNFINISHED.search(kept))


def _article(found: re.Match[str]) -> str:
    article = "an" if found[1] in "aeioAEIO" else "a"
    return f"{article.capitalize() if found[0][0] == 'A' else article} "


def _asian(text: str, limit: int) -> str:
    best = ""
    for found in _ASIA.finditer(text):
        kept = text[: found.start()].rstrip(_TAIL)
        if columns(kept) > limit:
            break
        if any(kept.count(a) != kept.count(b) for a, b in ("（）", "()", "“”", "《》")):
            continue
        if found[0] != "、":
            best = kept
        elif "的" not in re.split("[，；。,]", text[found.end() :], maxsplit=1)[0] and columns(kept) + 2 <= limit:
            best = f"{kept}等"
    return best if columns(best) >= limit * _LEAST else ""


def is_verb(word: str) -> bool:
    """Tell whether a word, in small letters, is one of the verbs: `list`, `lists`, `queries` and `listing` are."""
    return bool(_forms(word) & VERBS)


def is_third_person(word: str) -> bool:
    """Tell whether a word is a verb in the third person: `lists`."""
    return word.endswith("s") and word not in VERBS and bool(_forms(word) & VERBS)


def _forms(word: str) -> set[str]:
    forms = {word}
    if word.endswith("ies"):
        forms.add(f"{word[:-3]}y")
    if word.endswith("s"):
        forms |= {word[:-1], word[:-2]}
    if word.endswith("ing") and len(word) > 5:
        forms |= {word[:-3], f"{word[:-3]}e", word[:-4]}
    return forms
