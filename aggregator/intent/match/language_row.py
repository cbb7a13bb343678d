"""The row of a language: its lists of small words and forms of a request, and the patterns made of them."""

import re
from dataclasses import dataclass
from functools import cached_property
from typing import Final

_NEVER: Final = "(?!)"


@dataclass(frozen=True)
class LanguageRow:
    """The row of a language: lists of phrases separated by spaces (`_` stands for a space), and patterns (`form_`).

    Before a name stand:
      `asks`: the forms of a request; `form_opens` at the end
      `objects`: what follows a verb that is an order at once, so that any word before it is a verb
      `orders`: orders for what a server does; `uses`: orders to use it or ask it
      `means`, `places`: by means of (a tool or a server), in (a server)
      `sources`: according to (a server), in a question; `fetches`, `puts`: orders to fetch something of (a server), and
      to put something there
      `of`: what makes the name a part of something else: `a test for read_file`
      `refuses`, `tells`: refusals; questions and reports
      `joins`: before an order; `fillers`: between any of these and the name
      `small`: other words that are no orders
    In a sentence with a server stand, wherever its name is (`abroad`):
      `asked`: what a question begins with, and `now`: what says that it is about the state of things
      `itself`: what is asked or said of the product; `likened`, before its name: about it, like it
      `pronouns`: what an order in a later clause calls a thing named before
      `form_orders`: the beginning of an order in other forms; `form_how`: a question how to do something
    After a name stand:
      `form_asks` at the end, `form_means` at the beginning, `form_refuses` anywhere
    `form_tells` stands in both places, after a name at the beginning, as `tells` may. `wonders`: those of `tells` that
    an order may go on with (`Prüfe in x, ob`). `form_says` has pairs of what stands before the name of a server and
    after it if a message wants to know what the server says. `form_runs` begins a clause after that of a name, and
    orders to run it.
    """

    code: str
    asks: str = ""
    objects: str = ""
    orders: str = ""
    uses: str = ""
    means: str = ""
    places: str = ""
    sources: str = ""
    of: str = ""
    refuses: str = ""
    tells: str = ""
    wonders: str = ""
    fetches: str = ""
    puts: str = ""
    joins: str = ""
    fillers: str = ""
    small: str = ""
    asked: str = ""
    now: str = ""
    itself: str = ""
    pronouns: str = ""
    likened: str = ""
    form_opens: str = _NEVER
    form_orders: str = _NEVER
    form_how: str = _NEVER
    form_asks: str = _NEVER
    form_means: str = _NEVER
    form_refuses: str = _NEVER
    form_tells: str = _NEVER
    form_runs: str = _NEVER
    form_says: tuple[tuple[str, str], ...] = ()

    @cached_property
    def no_orders(self) -> frozenset[str]:
        """The words that are no order, though a name follows: `the read_file`."""
        lists = (self.means, self.places, self.of, self.refuses, self.tells, self.fillers, self.small)
        return frozenset(" ".join(lists).split())

    @cached_property
    def words(self) -> frozenset[str]:
        """The single words by which the language is recognised."""
        found = re.split(r"[ _'-]", " ".join((self.asks, self.orders, self.uses, self.joins, *self.no_orders)))
        return frozenset(word for word in found if len(word) > 1)

    @cached_property
    def asking(self) -> re.Pattern[str]:
        """A form of a request before a name."""
        return re.compile(rf"{_any_of(self.asks)}|{self.form_opens}")

    @cached_property
    def opening(self) -> re.Pattern[str]:
        """The whole of what stands before a name in a request."""
        return re.compile(self.form_opens)

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
    def by_source(self) -> re.Pattern[str]:
        """The end of a text that names a source."""
        return re.compile(rf"{_any_of(self.sources)}{self._filled}$")

    @cached_property
    def says(self) -> tuple[tuple[re.Pattern[str], re.Pattern[str]], ...]:
        """The end of a text that asks what the server after it says, and the rest of the question; several pairs."""
        return tuple((re.compile(f"(?:{before})$"), re.compile(f"(?:{after})")) for before, after in self.form_says)

    @cached_property
    def wondering(self) -> re.Pattern[str]:
        """A text that goes on with an indirect question."""
        return re.compile(rf"\W{{0,3}}{_any_of(self.wonders)}")

    @cached_property
    def fetching(self) -> re.Pattern[str]:
        """A clause up to a server that orders to fetch something of it."""
        return re.compile(
            rf"{self._joined}{_any_of(self.fetches)}(?:[^,.]* )?(?:de|del|du|d['’]) ?$" if self.fetches else _NEVER
        )

    @cached_property
    def putting(self) -> re.Pattern[str]:
        """A clause up to a server that orders to put something there."""
        return re.compile(
            rf"{self._joined}{_any_of(self.puts)}(?:[^,.]{{1,60}} )?(?:a|al|à|vers) ?$" if self.puts else _NEVER
        )

    @cached_property
    def ordered(self) -> re.Pattern[str]:
        """The beginning of a sentence that orders something, in any form."""
        verb = rf"(?P<order>[^\W\d_]{{2,20}})(?:[- ]{_any_of(self.joins, self.fillers)})*[- ]{_any_of(self.objects)}"
        return re.compile(rf"{self._joined}(?:{_any_of(self.orders, self.uses, self.asks)}|{self.form_orders}|{verb})")

    @cached_property
    def asking_first(self) -> re.Pattern[str]:
        """The beginning of a question what there is."""
        return re.compile(rf"{self._joined}\W{{0,2}}{_any_of(self.asked)}")

    @cached_property
    def state(self) -> re.Pattern[str]:
        """What says that a question is about the state of things."""
        return re.compile(_any_of(self.now))

    @cached_property
    def of_itself(self) -> re.Pattern[str]:
        """What is asked or said of the product."""
        return re.compile(_any_of(self.itself))

    @cached_property
    def about(self) -> re.Pattern[str]:
        """The end of a text that speaks about the thing after it, or likens it."""
        return re.compile(rf"{_any_of(self.likened)}{self._filled}$")

    @cached_property
    def again(self) -> re.Pattern[str]:
        """A word for a thing that was named before."""
        return re.compile(
            rf"{_any_of(self.pronouns)}|[^\W\d_]{{2,14}}[aeiáéí](?:lo|la|los|las)(?!\w)" if self.pronouns else _NEVER
        )

    @cached_property
    def how(self) -> re.Pattern[str]:
        """A question how to do something."""
        return re.compile(self.form_how)

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
    def commanding(self) -> re.Pattern[str]:
        """The beginning of a clause with any verb, the group `order`, and its object: `Crawle die Seiten`."""
        return re.compile(
            rf"{self._joined}(?P<order>[^\W\d_]{{2,20}})(?: {_any_of(self.joins)})? {_any_of(self.objects)}"
            if self.objects
            else _NEVER
        )

    @cached_property
    def runs(self) -> re.Pattern[str]:
        """The beginning of a clause such as `run it`, after one that names a tool."""
        return re.compile(rf"{self._joined}(?:{self.form_runs})")

    @cached_property
    def using(self) -> re.Pattern[str]:
        """The beginning of a clause that orders the use of something."""
        asked = rf"(?:{_any_of(self.asks)}\W{{1,3}})?"
        return re.compile(rf"{self._joined}{asked}{_any_of(self.uses)}(?P<directly>{self._filled}$)?")

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
        # Without a list of words, the verb stands after the name, and with it all that tells.
        return re.compile(rf"{_any_of(self.tells)}|{self.form_tells}" if self.tells else _NEVER)

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
