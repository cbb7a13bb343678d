"""Find the servers that a clause in another language than English and Chinese orders or asks something of, wherever "
"the name stands.

Law: only a name that is hardly anything else counts; a clause that tells, explains or refuses is no order.
"""

import re
from collections.abc import Iterator
from typing import Final

from aggregator.intent.match.clauses import (
    NamedClause,
    clause_before,
    clauses_after,
    clauses_with_servers,
    sentence_after,
)
from aggregator.intent.match.explicit import NamedCall
from aggregator.intent.match.language_row import LanguageRow
from aggregator.intent.match.languages import is_order
from aggregator.intent.match.names import ToolNames
from aggregator.intent.match.places import names_a_work
from aggregator.intent.match.slots import end_of
from aggregator.intent.match.text import MessageText

_CLAUSES_AFTER: Final = 2
_NUMBER: Final = re.compile(r"(?<!\w)[\w#-]{0,12}\d")
# Begins a statement as well as a question.
_WEAK: Final = re.compile(
    r"^\W{0,3}(?:on a|il y a|y a|j['’]ai des|hay|tengo|tenemos|está|están|tienen?|quedan?|siguen?|hat|haben|hab|habe"
    r"|ist|sind|läuft"
    r"|laufen|steht|stehen|liegt|liegen|hängt|hängen)(?!\w)"
)
# Mit n8n baue ich: the verb is no order.
_SUBJECT: Final = re.compile(
    r"\W*\w+[ -](?:t-)?(?:ich|wir|man|er|sie|es|ihr|je|nous|on|ils?|elles?|la gente|yo|nosotros|ellos)(?!\w)"
)
# Von X vorlesen lassen.
_HAVE_DONE: Final = re.compile(r" (?:eine?n?|die|den|das|alle) |(?:[^,.]* )?[^\W\d_]{2,}n(?: (?:zu )?lassen|\W*$)")
# Heroku: Logs der App.
_WANTED_NOUN: Final = re.compile(
    r"\W*(?:logs?|protokolle|liste|anzahl|status|alle|letzte[nrs]?|neueste[nrs]?|offene[nrs]?|meine?|nombre|tou(?:s|tes)|derni"
    r"[eè]re?s?|mes|mon|ma|lista|número|tod[oa]s|últim[oa]s?|mis?)(?!\w)"
)
_GOOD: Final = re.compile(
    r"(?<!\w)(?:wäre?|fänd\w*|hätt\w*)(?: [\w']+){0,3} (?:super|toll|nett|klasse|schön|lieb|cool|gut|prima|hilfreich"
    r"|spitze|dankbar|gern)\W*$"
)
_IF_YOU: Final = re.compile(r"\W*wenn (?:du|ihr|sie|wir)(?!\w)")
# Kann tavily mir das suchen? ¿Puede tavily buscarme esto? Tavily peut me trouver ça ?
_CAN: Final = re.compile(
    r"(?:^|[^\w])(?:kann|könnte|würde|puede|podría|est-ce que)(?: (?:bitte|mal|das|der|die|dein|el|le|la))? $"
)
_DO_FOR_US: Final = re.compile(
    r" (?:(?:bitte|mal|bitte mal) )?(?:mir|uns|das|die|den|dem|es|ihn|mein\w*|unser\w*|alle|diese\w?|eine?n?)(?!\w)"
    r"[^.!?]*[^\W\d_]{2,}n\W*$"
    r"| [^\W\d_]{2,}[aei]r(?:me|nos|lo|la|los|las|le|les)(?!\w)"
    r"| [^\W\d_]{2,}[aeiá]r (?:el|la|los|las|mis?|esta|este|esto|eso|una?|todos|todas)(?!\w)"
    r"| (?:peut|pourrait) (?:(?:me|nous|le|la|les) |[ml]['’]|[^\W\d_]{2,}(?:er|ir|re) (?:l(?:a|es?)|m(?:on|a|es)"
    r"|ce\w{0,3}|une?) )"
)
# A letter that the model is to write.
_LETTER: Final = re.compile(
    r"(?:écri|rédige|schreib|verfass|escrib|redact)[^,.]{0,40}(?<!\w)(?:e-?mail|mail|lettre|brief|absage|nachricht"
    r"|carta|correo"
    r"|mensaje|texte|text|texto|post|tweet|tuit)(?!\w)"
)
# In Japanese: what makes the name a part of a sentence that goes on, what a question is about if it asks for the state
# of things, and what is asked or said of the product.
_PARTICLE_JA: Final = re.compile(r" ?(?:を|で|に|は|が|の|から|へ|上|内|って|、|:)")
_STATE_JA: Final = re.compile(
    r"[^。]{0,60}(?:未|新し|今|最新|自分|俺|私|僕|うち|現在|残って|止まって|動いて|落ちて|開いて|来て|届いて|出て|何件|いくつ|何個|何台|誰)[^。]{0,60}"
    r"(?:ある|あります|ない|いる|います|る|か|ます|の|かな|っけ|誰)? ?[?？]$"
)
_ASKS_JA: Final = re.compile(
    r"(?:教えて|見せて|頂戴|ちょうだい|よろしく|頼む|たい(?:です)?|欲しい(?:です)?|ほしい(?:です)?|くれ|(?:たい|[欲ほ]しい)ん?(?:です|だ)?(?:けど|が|な|よ)|(?:(?:わか|分か)(?:る|ります)|出せ(?:る|ます)|見ら?れ(?:る|ます))か?(?=[?？])|やって|といて|おいて|どいて|して|みて|出して)[。!！?？♪〜～\s]*$"
)
# N8nのワークフローが止まってる。再起動して
_IN_TROUBLE_JA: Final = re.compile(
    r" ?[のがで][^。]{0,30}(?:止ま|落ち|動か|壊れ|おかし|エラー|失敗|遅|重)[^。]{0,12}。"
)
_ITSELF_JA: Final = re.compile(
    r"無料|有料|料金(?=は|が|って|いくら|プラン|$)|値段|値上げ|いくらです|どっち|どちら|違い|とは|って何|使い方|勉強|学び|入門|おすすめ|本を|記事|作文|小説|詩を|俳句|転職|会社|歴史|仕組み|らしい"
    r"|そうです"
    r"|方法|やり方|ないで|しなくて|やめて|禁止|触ら|翻訳|について(?!.*(?:調べ|検索|探し))|嫌い|好き|と思"
)


def find_orders_abroad(message: MessageText, names: ToolNames, row: LanguageRow) -> Iterator[NamedCall]:
    """Yield the servers of which a clause orders or asks something."""
    for clause in clauses_with_servers(message, names, abroad=True):
        if message.quoted(clause.place):
            continue
        end = end_of(message, clause.named)
        if row.code == "ja":
            behind = sentence_after(message, end)
            if _IN_TROUBLE_JA.match(behind):
                behind += sentence_after(message, end + len(behind))
            asked = _asks_in_japanese(row, clause.before, behind)
        else:
            asked = not _speaks_of_it(row, clause) and (
                _orders(row, clause)
                or _asks_for_state(message, row, clause)
                or _is_beside_order(message, row, clause)
                or _is_asked_to(message, clause)
                or _is_wished(message, clause)
                or _is_spoken_to(message, row, clause)
            )
        if asked:
            yield NamedCall(clause.start, end, clause.named, "server")


def _asks_in_japanese(row: LanguageRow, before: str, after: str) -> bool:
    if _PARTICLE_JA.match(after) is None or _ITSELF_JA.search(before + after) or row.refusing_behind.search(after):
        return False
    asked = any(pattern.search(after) for pattern in (row.asking_behind, _ASKS_JA))
    return asked or _STATE_JA.match(after) is not None


def _speaks_of_it(row: LanguageRow, clause: NamedClause) -> bool:
    """Tell whether the clause refuses, explains, or is about the product."""
    before, after = clause.before, clause.after
    wondering = row.wondering.search(after)
    refused = row.refusing_behind.search(after[: wondering.start()] if wondering is not None else after)
    letter = _LETTER.search(before) is not None and row.by_means.search(before) is None
    # I need that elevenlabs reads this.
    passed_on = (
        row.ordered.match(before) is not None
        and before.rstrip().endswith(" que")
        and row.of_itself.search(after) is None
    )
    passed_on = passed_on or (before.rstrip().endswith(" von") and _HAVE_DONE.match(after) is not None)
    about = (
        letter
        or (row.about.search(before) is not None and not passed_on)
        or names_a_work(before)
        or names_a_work(after)
    )
    return about or refused is not None or row.refusing.search(before) is not None or row.how.search(before) is not None


def _orders(row: LanguageRow, clause: NamedClause) -> bool:
    order = row.ordered.match(clause.before)
    if order is not None:
        if order["order"] is not None:
            return is_order(order["order"]) and row.of_itself.search(clause.before) is None
        # I want kubernetes.
        wanted = row.asking.match(order[0].strip()) is not None
        return not wanted or bool(clause.before[order.end() :].strip())
    return row.asking.search(clause.before) is not None or row.asking_behind.search(clause.after) is not None


def _asks_for_state(message: MessageText, row: LanguageRow, clause: NamedClause) -> bool:
    whole = f"{clause.before} {clause.after}"
    if row.asking_first.match(clause.before) is None or row.of_itself.search(whole):
        return False
    if _WEAK.search(clause.before) and "?" not in sentence_after(message, end_of(message, clause.named)):
        return False
    # Who approved PR 88 there?
    numbered = row.by_place.search(clause.before) is not None and _NUMBER.search(clause.before) is not None
    return numbered or row.state.search(whole) is not None


def _is_beside_order(message: MessageText, row: LanguageRow, clause: NamedClause) -> bool:
    """Tell whether an order stands before the clause or after it: `in n8n hängt ein Workflow, stoß ihn an`."""
    if row.of_itself.search(clause.before + clause.after):
        return False
    if row.wondering.match(clause.before):
        text = clause_before(message, clause.start)
        return row.order.match(text) is not None and row.refusing.search(text) is None
    if not row.by_place.search(clause.before):
        return False
    following = clauses_after(message, clause.end, _CLAUSES_AFTER)
    if row.by_place.fullmatch(clause.before) and row.order.match(clause.after) and not _SUBJECT.match(clause.after):
        return True
    place_only = row.by_place.fullmatch(clause.before) is not None and not clause.after.strip()
    return any(
        (row.ordered.match(text) and place_only) or (row.order.match(text) and row.again.search(text))
        for text in following
    )


def _is_wished(message: MessageText, clause: NamedClause) -> bool:
    """Tell whether a clause before this one calls it good: `wäre super, wenn du in n8n ... anlegst`."""
    return _IF_YOU.match(clause.before) is not None and _GOOD.search(clause_before(message, clause.start)) is not None


def _is_asked_to(message: MessageText, clause: NamedClause) -> bool:
    """Tell whether a question asks the server itself for something: `kann tavily mir das suchen?`."""
    leads = not clause.before.strip() or _CAN.search(clause.before) is not None
    behind = sentence_after(message, end_of(message, clause.named))
    return leads and behind.endswith("?") and _DO_FOR_US.match(behind) is not None


def _is_spoken_to(message: MessageText, row: LanguageRow, clause: NamedClause) -> bool:
    """Tell whether the message begins with the name and a stop, and an order or a question follows."""
    if clause.before.strip() or clause.after.strip():
        return False
    text = next(clauses_after(message, clause.end, 1), "")
    if message.plain.startswith(":", clause.end) and _WANTED_NOUN.match(text):
        return True
    if row.of_itself.search(text) or row.how.search(text):
        return False
    return any((row.order.match(text), row.asking.search(text), row.asking_first.match(text)))
