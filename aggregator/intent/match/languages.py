"""How people ask, refuse and tell in each language: one row a language, and the choice of the row for a message.

Law: rows hold the small words of a language and its forms of a request, never names or words of a catalog.
"""

import re
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from aggregator.intent.match.text import MessageText

_NEVER: Final = "(?!)"
_KANA: Final = re.compile(r"[\u3040-\u30ff]")
_HANGUL: Final = re.compile(r"[\uac00-\ud7af]")
# Words of a message that are read for its language.
_WORDS_READ: Final = 60


@dataclass(frozen=True)
class LanguageRow:
    """The row of a language: lists of phrases separated by spaces (`_` stands for a space), and patterns (`form_`).

    Before a name stand:
      `asks`: the forms of a request; `form_opens` at the end
      `orders`: orders for what a server does; `uses`: orders to use it or ask it
      `means`, `places`: by means of (a tool or a server), in (a server)
      `of`: what makes the name a part of something else: `a test for read_file`
      `refuses`, `tells`: refusals; questions and reports
      `joins`: before an order; `fillers`: between any of these and the name
      `small`: other words that are no orders
    After a name stand:
      `form_asks` at the end, `form_means` at the beginning, `form_refuses` anywhere
    `form_tells` stands in both places, after a name at the beginning, as `tells` may.
    """

    code: str
    asks: str = ""
    orders: str = ""
    uses: str = ""
    means: str = ""
    places: str = ""
    of: str = ""
    refuses: str = ""
    tells: str = ""
    joins: str = ""
    fillers: str = ""
    small: str = ""
    form_opens: str = _NEVER
    form_asks: str = _NEVER
    form_means: str = _NEVER
    form_refuses: str = _NEVER
    form_tells: str = _NEVER

    @cached_property
    def no_orders(self) -> frozenset[str]:
        """The words that are no order, though a name follows: `the read_file`."""
        lists = (self.means, self.places, self.of, self.refuses, self.tells, self.fillers, self.small)
        return frozenset(" ".join(lists).split())

    @cached_property
    def words(self) -> frozenset[str]:
        """The single words by which the language is known."""
        found = re.split(r"[ _'-]", " ".join((self.asks, self.orders, self.uses, self.joins, *self.no_orders)))
        return frozenset(word for word in found if len(word) > 1)

    @cached_property
    def asking(self) -> re.Pattern[str]:
        """A form of a request before a name."""
        return re.compile(rf"{_any_of(self.asks)}|{self.form_opens}")

    @cached_property
    def asking_behind(self) -> re.Pattern[str]:
        """A form of a request at the end of what follows a name."""
        return re.compile(rf"(?:{_any_of(self.asks)}|{self.form_asks})\W{{0,4}}$")

    @cached_property
    def by_means(self) -> re.Pattern[str]:
        """The end of a text that says by what means."""
        return re.compile(rf"{_any_of(self.means)}{self._filled}$")

    @cached_property
    def by_place(self) -> re.Pattern[str]:
        """The end of a text that says by what means or where."""
        return re.compile(rf"\W{{0,3}}{_any_of(self.means, self.places)}{self._filled}$")

    @cached_property
    def means_behind(self) -> re.Pattern[str]:
        """Matches a particle that makes the server before it the means, such as a postposition."""
        return re.compile(rf" ?(?:{self.form_means})")

    @cached_property
    def part_of(self) -> re.Pattern[str]:
        """The end of a text that makes the name after it a part of something else."""
        return re.compile(rf"{_any_of(self.of)}{self._filled}$")

    @cached_property
    def ordering(self) -> re.Pattern[str]:
        """A clause up to a name that is an order: one word, the group `order`, between small ones."""
        return re.compile(rf"{self._joined}(?P<order>[^\W\d_]{{2,20}}){self._filled}$" if self.joins else _NEVER)

    @cached_property
    def joining(self) -> re.Pattern[str]:
        """A clause up to a name that has nothing but words that lead on: `Dann noch`."""
        return re.compile(rf"\W{{0,3}}{_any_of(self.joins)}\W{{0,3}}{self._joined}{self._filled}")

    @cached_property
    def order(self) -> re.Pattern[str]:
        """The beginning of a clause that orders or requests something of a server."""
        return re.compile(rf"{self._joined}{_any_of(self.orders, self.uses, self.asks)}")

    @cached_property
    def using(self) -> re.Pattern[str]:
        """The beginning of a clause that orders the use of something."""
        return re.compile(rf"{self._joined}{_any_of(self.uses)}(?P<directly>{self._filled}$)?")

    @cached_property
    def refusing(self) -> re.Pattern[str]:
        """A refusal before a name."""
        return re.compile(_any_of(self.refuses))

    @cached_property
    def refusing_behind(self) -> re.Pattern[str]:
        """A refusal after a name."""
        return re.compile(self.form_refuses)

    @cached_property
    def telling(self) -> re.Pattern[str]:
        """A question or a report before a name."""
        return re.compile(rf"{_any_of(self.tells)}|{self.form_tells}")

    @cached_property
    def telling_behind(self) -> re.Pattern[str]:
        """A question or a report that begins with a name."""
        return re.compile(rf"\W{{0,6}}(?:{_any_of(self.tells)}|{self.form_tells})")

    @property
    def _joined(self) -> str:
        return rf"\W{{0,3}}(?:{_any_of(self.joins)}\W{{0,3}}){{0,4}}"

    @property
    def _filled(self) -> str:
        return rf"(?:\W{{0,3}}{_any_of(self.fillers)}){{0,5}}\W{{0,4}}"


def _any_of(*lists: str) -> str:
    """Return a pattern for any of the phrases as whole words, longest first."""
    ordered = sorted({phrase for one in lists for phrase in one.split()}, key=lambda one: (-len(one), one))
    phrases = "|".join(re.escape(one).replace("_", " ").replace("'", "['’]") for one in ordered)
    return rf"(?:(?<!\w)(?:{phrases})(?!\w))" if ordered else _NEVER


_EN: Final = LanguageRow(
    "en",
    asks="can_you could_you would_you will_you can_we could_we please let's let_us go_ahead_and i'd_like i_would_like "
    "i_want_you_to i_need you_should give_me get_me show_me do_a",
    places="in on with using via through from",
    of="of for in about from at by into on with",
    refuses="no not never don't without stop avoid cannot can't won't shouldn't instead_of rather_than",
    tells="how why what when who which where whether if is are was were do_you does did has had explain describe tell "
    "discuss document compare difference mean said says told ran got went saw wrote wish knows",
    joins="please ok okay hi hey hello now then and just so next first finally also",
    fillers="the a an my this that me it tool do one more",
    small="i we you they he she some any all every each both to or than like as our your their his her its these those "
    "there here tools function server have be been am us no yes thanks hello can could would should may must will "
    "shall might up error bug problem issue docs only same new old maybe perhaps called named",
    # Past forms, but need, feed, embed and seed.
    form_tells=r"(?<!\w)(?!need|feed|embed|seed)[a-z]{2,18}ed(?!\w)",
)
_DE: Final = LanguageRow(
    "de",
    asks="kannst_du könntest_du würdest_du magst_du willst_du können_sie könnten_sie würden_sie können_wir könnten_wir "
    "wäre_es_möglich bitte lass_uns lasst_uns dass_du ich_möchte ich_brauche wir_brauchen ich_hätte_gern "
    "ich_hätte_gerne am_besten gib_mir",
    orders="suche such finde erstelle lege hole hol zeige zeig lies schreibe schreib prüfe öffne schicke schick sende "
    "lade lösche",
    uses="nutze nutz benutze verwende nimm frage frag",
    means="mit mittels per via durch",
    places="in auf bei aus",
    of="von vom für zu zum zur in im aus bei über",
    refuses="nicht kein keine keinen keinesfalls nie niemals ohne statt anstatt",
    tells="was wie warum wieso weshalb wann wer wo wofür wozu woher welche welcher welches welchen ob ist sind war "
    "waren wurde wurden wird werden habe hat haben hatte hatten gestern vorhin neulich sagte meinte erkläre "
    "erklär vergleiche kann darf muss soll_ich sollen_wir läuft geht funktioniert problem probleme fehler ärger "
    "erfahrung erfahrungen",
    joins="und dann danach bitte jetzt nun also ok okay hallo hi zuerst anschließend",
    fillers="der die das dem den des ein eine einen einem einer mal doch bitte nun jetzt auch gleich noch dir mir uns "
    "tool werkzeug funktion befehl dienst server",
    small="ich du er sie es wir ihr man mein meine dein deine unser unsere sein seine ihre vor nach am an als wenn "
    "weil dass aber oder und nur so sehr schon hier dort frage liebe danke ja nein",
    form_refuses=r"(?<!\w)(?:nicht|keinesfalls|nie|niemals)(?!\w)",
)
_FR: Final = LanguageRow(
    "fr",
    asks="peux-tu pouvez-vous pourrais-tu pourriez-vous peut-on pouvons-nous veux-tu voulez-vous voudrais-tu tu_peux "
    "vous_pouvez tu_pourrais vous_pourriez est-ce_que_tu_peux est-ce_que_tu_pourrais est-ce_que_vous_pouvez "
    "est-ce_que_vous_pourriez serait-il_possible s'il_te_plaît s'il_vous_plaît s'il_te_plait s'il_vous_plait stp "
    "svp veuillez merci_de merci_d fais fais-moi donne-moi donnez-moi faites faisons on_va je_veux je_voudrais "
    "j'aimerais que_tu que_vous j'ai_besoin il_faut il_me_faut il_me_faudrait sers-toi servez-vous",
    orders="cherche cherchez trouve trouvez lis lisez crée créez montre montrez ouvre ouvrez écris envoie envoyez "
    "supprime ajoute liste",
    uses="utilise utilisez demande demandez",
    means="avec via par à_l'aide_de au_moyen_de grâce_à en_utilisant",
    places="dans",
    of="pour dans sur de_la du des",
    refuses="ne pas jamais sans évite évitez aucun plutôt_que au_lieu arrête",
    tells="que quoi qui qu'est-ce pourquoi comment combien quand quel quelle quels quelles si où est sont était "
    "étaient fut a ont as-tu avez-vous tu_as vous_avez nous_avons hier dit explique expliquez compare fait "
    "fonctionne marche sert problème problèmes erreur erreurs souci",
    joins="et puis alors maintenant ensuite enfin d'abord donc ok bonjour salut s'il_te_plaît s'il_vous_plaît stp svp",
    fillers="l'outil outil la le les un une de d'un d'une donc moi toi vous à au serveur",
    small="je tu il elle on nous ils elles mon ma mes ton ta tes son ses notre votre leur ce cet cette ces en sous "
    "chez comme mais ou et aussi très bien mal déjà ici là non oui c'est question merci doc",
    form_refuses=r"(?<!\w)(?:pas|jamais)(?!\w)",
    # J'ai lancé; il utilise.
    form_tells=r"(?<!\w)j['’](?!aimerais|ai besoin)\w"
    r"|(?<!\w)(?:je|il|elle|on|nous|ils|elles) (?!veux|voudrais|faut|va |me |te |vous )\w{1,20}(?= (?:l['’]outil )?$)",
)
_ES: Final = LanguageRow(
    "es",
    asks="puedes podrías puede podría podés podemos quieres por_favor porfa quiero queremos necesito necesitamos "
    "me_gustaría me_haces me_das dame te_pido_que sería_posible vamos_a haz hazme haga hagamos hay_que",
    orders="busca busque encuentra lee crea cree muestra muéstrame abre escribe envía manda borra añade lista",
    uses="usa use utiliza utilice pide",
    means="con mediante usando vía via por_medio_de a_través_de",
    places="en desde",
    of="de del para en sobre por",
    refuses="no nunca jamás sin evita evite tampoco ningún en_vez_de en_lugar_de",
    tells="qué cuál cuáles cómo por_qué cuándo quién dónde para_qué si es son era fue fueron está estaba he ha has han "
    "hemos había ayer dijo explica explícame compara sirve funciona hace problema problemas error errores",
    joins="y luego después entonces ahora pues primero ok hola por_favor porfa",
    fillers="la el los las un una unos unas a al herramienta me nos servidor ya",
    small="yo tú él ella nosotros ellos ellas mi mis tu tus su sus nuestro este esta estos estas ese esa que entre "
    "como pero o e también muy aquí allí sí pregunta gracias lo se",
    # Past forms: ejecuté, funcionó, usaron.
    form_tells=r"(?<!\w)(?!qué|sé|podré)\w{3,20}(?:é|ó|aste|iste|aron|ieron|aba|aban)(?!\w)",
)
# In Japanese and Korean the verb, and with it all that tells a request, comes after the name.
_JA: Final = LanguageRow(
    "ja",
    form_asks="て|で|(?:て|で)?(?:ください|下さい|ほしい|くれる?|もらえ(?:る|ます|ません)か?|いただけ(?:ます|ません)か"
    "|くれ(?:ます|ません)か)|お願い(?:します)?|頼む|頼みます|しよう|しましょう",
    form_means="で|を(?:使って|用いて|使用して)|に",
    form_refuses="ないで|ないよう|なくて|禁止|やめて|止めて|使わない|呼ばない|ずに",
    form_tells="(?:って|とは|は)(?:何|なに|なん|どう|いつ|なぜ|誰)|とは|について|の(?:使い方|説明|意味|違い)"
    "|[^、。]{0,12}(?:した|った|ました|でした)(?:$|が|けど|ら|の)|[^、。]{0,20}(?<!願いし)(?<!頼み)(?:ですか?|ます)$",
)
# Korean syllables that end in a past: 했, 썼; all with ㅆ but 있 (be) and 겠 (shall).
_PAST: Final = "".join(chr(code) for code in range(0xAC00 + 20, 0xD7A4, 28) if chr(code) not in "있겠")
_KO: Final = LanguageRow(
    "ko",
    form_asks="줘요?|주세요|주십시오|줄래요?|줄 ?수 ?있(?:어|니|나요|을까요?)요?|부탁(?:해|해요|합니다|드려요)?"
    "|하자|합시다|해라|해|하세요|하십시오|눌러",
    form_means="으?로|에서?|[을를] (?:사용|이용)",
    form_refuses="지 ?마|말아|말고|않|금지|없이",
    form_tells=rf"[^,.]{{0,12}}(?:뭐|뭘|뭔|무엇|왜|어떻게|언제|[{_PAST}]|인가|나요|습니까|사용법|설명|차이)"
    r"|[^,.]{0,20}(?<![줘세해까래])(?<!드려)요$",
)
# The rest of Chinese is in `phrasing` and `explicit`.
_ZH: Final = LanguageRow(
    "zh", form_opens=r"(?:(?:[帮给]我们?|帮忙|请你?|麻烦你?|劳驾|能不能|能否|可否|我想?要)来?|来)一?[个次下]? ?$"
)
_SPACED: Final = (_EN, _DE, _FR, _ES)
_NO_ORDERS: Final = frozenset().union(*(row.no_orders for row in _SPACED))


def language_of(message: MessageText) -> LanguageRow:
    """Return the row of the script, or that which has most of the message's words; English if none has any."""
    if _KANA.search(message.plain):
        return _JA
    if _HANGUL.search(message.plain):
        return _KO
    if message.chinese:
        return _ZH
    plain = message.plain
    words = [
        word.text
        for word in message.words[:_WORDS_READ]
        if "_" not in (plain[max(0, word.start - 1) : word.start], plain[word.end : word.end + 1])
    ]

    def shares(row: LanguageRow) -> tuple[int, int]:
        known = [word for word in words if word in row.words]
        return len(known), sum(word not in _EN.words for word in known)

    return max(_SPACED, key=shares)


def is_order(word: str) -> bool:
    """Tell whether a word can be an order: any but the small words of all languages, and -ing forms."""
    return word not in _NO_ORDERS and not word.endswith("ing")
