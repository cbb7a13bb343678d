"""Patterns over canonical names: `github.*`, `*.delete_*`, `server:time`, `resource:legal.*`, `prompt:legal.*`,
`skill:docs.*`.

Law 1: patterns are matched against the canonical name of the record, case and all, never against what a host typed. A
resource has as many names as its URI has spellings: a denial applies if it matches any of them, an allowance only if it
matches all. A file of a skill is a resource that the patterns of skills match too, by each directory that contains it.
Law 2: of a pattern over URIs only the text around the wildcards is respelled.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from fnmatch import translate
from functools import lru_cache
from typing import Final, Literal, NamedTuple
from urllib.parse import unquote

from aggregator.config.files.report import nearest
from aggregator.domain.names import without_host_prefix
from aggregator.domain.records import ItemKind
from aggregator.domain.uris.spellings import canonical, resolved, spellings
from aggregator.skills.uris import directories, directory_name, directory_uri, is_skill_scheme, skill_name, skill_uri

Kind = Literal["tool", "resource", "prompt", "skill"]
PatternKind = Literal["tool", "resource", "prompt", "skill", "server"]

LONGEST: Final = 500
_KIND: Final = re.compile(r"(?P<kind>[^.*?\[\]:/]*):(?P<rest>.*)", re.DOTALL)
_PREFIXES: Final[tuple[PatternKind, ...]] = ("resource", "prompt", "skill", "server")
# Kinds decided by URI: a skill by the URI of its SKILL.md.
_BY_URI: Final = ("resource", "skill")
# Longer URIs are not remembered.
_SHORT: Final = 1_000
# Wildcards are characters of a private-use plane while the text is rewritten; no pattern may hold such.
_WILDCARD: Final = re.compile(r"\*|\?|\[!?\]?[^\]]*\]")
_FIRST: Final = 0xF0000
_SCHEME_AT_END: Final = re.compile(r"[A-Za-z0-9+-]*\Z", re.ASCII)
_SPECIAL: Final = re.compile(r"[*?\[]")
_SET: Final = re.compile(r"\[!?\]?[^\]]*\]")
# Characters that no server id or prefix has: with one before the first dot a pattern can match nothing.
_FOREIGN: Final = re.compile(r"[^A-Za-z0-9_-]")


class PatternError(ValueError):
    """A text that cannot be a pattern: `message` says why, `fix` what to write."""

    def __init__(self, message: str, fix: str) -> None:
        super().__init__(f"{message} {fix}")
        self.message = message
        self.fix = fix


class TargetNames(NamedTuple):
    """The full names of one target: in every spelling, as sent, and without percent-escapes."""

    every: tuple[str, ...]
    sent: str
    decoded: str


class SkillNames(NamedTuple):
    """The full names of a target's possible skills: of all in every spelling, and, as sent and without percent-escapes,
    of those that may allow it.
    """

    every: tuple[str, ...]
    allowing: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Target:
    """A tool, resource, prompt or skill to decide about. `server` is the server's id, `name` its own name or URI; a
    skill's name is made from the URI of its SKILL.md (`named_by_rules`).

    Of resources and skills: `listed` tells whether the server lists this very URI, `also` are other spellings that it
    lists. `skills` names the listed skills that contain the resource.

    Of tools and prompts: `sent_as` is the name that the server gives an approved one now, empty if it is the same.
    """

    kind: Kind
    server: str
    prefix: str
    name: str
    listed: bool = False
    also: tuple[str, ...] = ()
    skills: tuple[str, ...] = ()
    sent_as: str = ""

    @property
    def full(self) -> str:
        """The canonical name, `prefix.name`."""
        return f"{self.prefix}.{self.name}"

    @property
    def as_sent(self) -> "Target | None":
        """The same target under the name that its server uses now; None if the name has not changed."""
        return replace(self, name=self.sent_as, sent_as="") if self.sent_as else None

    @property
    def names(self) -> TargetNames:
        """The full names of the target, in every spelling."""
        full = self.full
        if self.kind not in _BY_URI:
            return TargetNames((full,), full, full)
        uri = self.uri
        found, full = spellings(uri), f"{self.prefix}.{uri}"
        every = tuple(f"{self.prefix}.{name}" for name in (*found.every, *self.also))
        if self.listed:
            return TargetNames(every, full, full)
        return TargetNames(every, f"{self.prefix}.{found.canonical}", f"{self.prefix}.{found.decoded}")

    @property
    def uri(self) -> str:
        """The URI of a resource, or of the SKILL.md of a skill."""
        return skill_uri(self.name) if self.kind == "skill" else self.name

    @property
    def skill_names(self) -> SkillNames:
        """The full names of the skills that a resource or a skill may belong to."""
        if self.kind not in _BY_URI:
            return SkillNames((), ())
        uri, own = self.uri, self.name if self.kind == "skill" else None
        known = self.skills if own is None else (own,)
        short = len(uri) <= _SHORT and not self.also and len(known) <= 1
        made = _kept_skill_names if short else _skill_names
        return made(self.prefix, uri, self.also, known)

    @property
    def pattern(self) -> str:
        """The pattern that means this and nothing else."""
        return _SPECIAL.sub(lambda found: f"[{found[0]}]", str(self))

    def __str__(self) -> str:
        """Return the printable name: line breaks and terminal escapes in a server's names are escaped."""
        text = self.full if self.kind == "tool" else f"{self.kind}:{self.full}"
        if text.isprintable():
            return text
        return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def named_by_rules(kind: ItemKind, own: str) -> tuple[Kind, str]:
    """Return the kind and the name by which patterns match an item of a server: a template like the URI that it looks
    like, a skill by its name. `own` is the server's own name or URI, of a skill the URI of its SKILL.md.
    """
    if kind == "prompt":
        return kind, own
    name = skill_name(own) if kind == "skill" else None
    return ("skill", name) if name is not None else ("resource", own)


@dataclass(frozen=True, slots=True)
class Pattern:
    """A checked pattern. `literal`: it has no wildcard; `head` is the server it is bound to, None for any.

    `other_spellings` are the other spellings of a pattern over URIs.
    """

    text: str
    kind: PatternKind
    glob: str
    literal: bool
    head: str | None
    _regex: re.Pattern[str] = field(repr=False, compare=False)
    other_spellings: tuple[str, ...] = field(default=(), repr=False, compare=False)
    _sent: tuple[re.Pattern[str], ...] = field(default=(), repr=False, compare=False)
    _decoded: tuple[re.Pattern[str], ...] = field(default=(), repr=False, compare=False)
    _every: tuple[re.Pattern[str], ...] = field(default=(), repr=False, compare=False)

    def __str__(self) -> str:
        return self.text

    def matches(self, target: Target, names: TargetNames | None = None, *, every: bool = False) -> bool:
        """Tell whether the pattern speaks of `target`, whose `names` these are.

        One matching name is enough; with `every`, all that count have to match.
        """
        if self.kind == "server":
            return self.fits(target.server)
        if self.kind == "skill":
            return self.speaks_of_skill(target.skill_names, every=every)
        if self.kind != target.kind and (self.kind, target.kind) != ("resource", "skill"):
            return False
        if self.kind != "resource":
            return self.fits(target.full)
        names = names or target.names
        return self.covers(names) if every else self.mentions(names)

    def speaks_of_skill(self, names: SkillNames, *, every: bool = False) -> bool:
        """Tell whether a pattern over skills speaks of a target with these names; `every` as in `matches`."""
        if not every:
            return self.mentions(TargetNames(names.every, "", ""))
        return any(self.covers(TargetNames((), sent, decoded)) for sent, decoded in names.allowing)

    def mentions(self, names: TargetNames) -> bool:
        """Tell whether it matches one of the names of a target."""
        return any(regex.match(name) for name in names.every for regex in (self._regex, *self._every))

    def covers(self, names: TargetNames) -> bool:
        """Tell whether it matches a target by the name as sent, and by every way a server may read that name."""
        return any(regex.match(names.sent) for regex in (self._regex, *self._sent)) and any(
            regex.match(names.decoded) for regex in (self._regex, *self._decoded)
        )

    def fits(self, text: str) -> bool:
        """Tell whether it matches a full name or, for `server:`, the id of a server."""
        return self._regex.match(text) is not None


def literal_start(pattern: Pattern) -> str:
    """Return what every name begins with that a pattern matches: its text before the first wildcard."""
    return _SPECIAL.split(pattern.glob, maxsplit=1)[0]


@lru_cache(maxsize=65_536)
def parse(text: str) -> Pattern:
    """Parse the text of a pattern.

    Raises:
        PatternError: it cannot be a pattern.
    """
    if not text or text != text.strip():
        raise PatternError("A pattern is not empty and has no space at its ends.", "Correct it.")
    if len(text) > LONGEST:
        raise PatternError(f"A pattern has at most {LONGEST} characters.", "Shorten it with *.")
    if not text.isprintable():
        raise PatternError("The pattern holds a character that cannot be seen.", "Type it anew.")
    kind, glob = _split(text)
    if "[" in _SET.sub("", glob):
        raise PatternError("A [ has no ].", "Close it, or write [[] for the character itself.")
    literal = _SPECIAL.search(glob) is None
    regex = re.compile(translate(glob))
    if kind == "server":
        _check_server(glob)
        return Pattern(text, kind, glob, literal, glob if literal else None, regex)
    before, dot, _ = glob.partition(".")
    _check_head(kind, glob)
    head = before if dot and _SPECIAL.search(before) is None else None
    if kind not in _BY_URI:
        return Pattern(text, kind, glob, literal, head, regex)
    spelled = globs(glob) if kind == "resource" else skill_globs(glob)
    sent, decoded, whole = (re.compile(translate(other)) for other in spelled)
    others = tuple(dict.fromkeys(other for other in spelled if other != glob))
    every = tuple({other.pattern: other for other in (sent, decoded, whole) if other != regex}.values())
    return Pattern(text, kind, glob, literal, head, regex, others, (sent,), (decoded,), every)


def _split(text: str) -> tuple[PatternKind, str]:
    found = _KIND.fullmatch(text)
    if found is None:
        return "tool", text
    for kind in _PREFIXES:
        if found["kind"] == kind:
            if not found["rest"]:
                raise PatternError(f"Nothing follows {kind}:.", f"Write {kind}:* for all of them.")
            return kind, found["rest"]
    if found["kind"] == "tool":
        raise PatternError("A pattern without a kind means tools.", f"Write it without a kind: {found['rest']}")
    suggestion = nearest(found["kind"], _PREFIXES)
    fix = "The kinds are resource:, prompt:, skill: and server:."
    if suggestion:
        fix = f"Did you mean `{suggestion}:{found['rest']}`?"
    elif (meant := canonical_spelling(text)) is not None:
        fix = f'Did you mean "{meant}"? {fix}'
    raise PatternError(f"There is no kind {found['kind']!r}.", fix)


def canonical_spelling(glob: str) -> str | None:
    """Return the full name that a host or a model spells `mcp__time__convert_time`, `time__convert_time`,
    `time/convert_time` or `time:convert_time`; None if the text is no such spelling.
    """
    short = without_host_prefix(glob)
    if "://" in short:
        return None
    for separator in ("__", "/", ":"):
        prefix, found, name = short.partition(separator)
        if found and prefix and name and _FOREIGN.search(prefix) is None:
            return f"{prefix}.{name}"
    prefix, dot, name = short.partition(".")
    return short if dot and prefix and name and short != glob else None


def _check_server(glob: str) -> None:
    if "." in glob:
        raise PatternError(
            "server: takes the name of a server, which has no dot.",
            f"For its tools, write the pattern without `server:`: {glob}",
        )
    _refuse_foreign(_SET.sub("", glob).replace("*", "").replace("?", ""))


def _check_head(kind: PatternKind, glob: str) -> None:
    plain = _SET.sub("[", glob)  # characters in a set are not checked
    head = re.split(r"[.*]", plain, maxsplit=1)[0]
    mark = "" if kind == "tool" else f"{kind}:"
    spelled = canonical_spelling(glob) if kind not in _BY_URI else None
    meant = spelled and f"{mark}{spelled}"
    _refuse_foreign(head.replace("?", "").replace("[", ""), meant)
    if "." not in plain and "*" not in plain and "?" not in plain and "[" not in plain:
        shape = "server.uri" if kind == "resource" else f"server.{kind}"
        bare = without_host_prefix(glob) or glob
        raise PatternError(
            f"This can match nothing: a full name is {shape}.",
            f'Did you mean "{meant}"?'
            if meant is not None
            else f'Write "{mark}{bare}.*" for all of a server\'s, or "{mark}*.{bare}" for that name on every server.',
        )


def _refuse_foreign(part: str, meant: str | None = None) -> None:
    """Refuse characters that no name of a server has; `meant` is the name that the text may be a spelling of."""
    found = _FOREIGN.search(part)
    if found:
        raise PatternError(
            f"This can match nothing: the name of a server holds only A-Z, a-z, 0-9, _ and -, not {found[0]!a}.",
            f'Did you mean "{meant}"?'
            if meant is not None
            else "Type the name anew; the character may only look like the right one.",
        )


def _skill_names(prefix: str, uri: str, also: tuple[str, ...], known: tuple[str, ...]) -> SkillNames:
    """Return the names of the skills of a URI; `known` are the skills known to contain it."""
    found = spellings(uri)
    every = [name for form in (*found.every, *also) for name in directories(form)]
    # A resource with the scheme for skills is a file of a skill even if no list says so.
    allowing = known or (directories(found.canonical) if is_skill_scheme(uri) else ())
    return SkillNames(
        tuple(f"{prefix}.{name}" for name in dict.fromkeys((*every, *known))),
        tuple((f"{prefix}.{name}", f"{prefix}.{_decoded(name)}") for name in allowing),
    )


_kept_skill_names: Final = lru_cache(maxsize=4_096)(_skill_names)


def _decoded(name: str) -> str:
    return directory_name(spellings(directory_uri(name)).decoded)


class Globs(NamedTuple):
    """The spellings of a pattern: as URIs are sent, without percent-escapes, and as `resolved` spells URIs."""

    canonical: str
    decoded: str
    resolved: str


def globs(glob: str) -> Globs:
    """Return the spellings of a pattern `server.uri`."""
    server, uri = _split_wildcards(glob)
    wildcards: list[str] = []

    def marked(found: re.Match[str]) -> str:
        if _SPECIAL.sub(_bracketed, found[0][1:-1]) == found[0]:
            return found[0][1]
        wildcards.append(found[0])
        return chr(_FIRST + len(wildcards) - 1)

    plain = _WILDCARD.sub(marked, uri)

    def spelled(how: Callable[[str], str]) -> str:
        text = how(plain)
        parts = (
            wildcards[ord(c) - _FIRST] if _FIRST <= ord(c) < _FIRST + len(wildcards) else _SPECIAL.sub(_bracketed, c)
            for c in text
        )
        return server + "".join(parts)

    whole = spelled(resolved)
    if whole.endswith("*/") and uri.endswith("*"):
        # `resolved` took the host for complete; with the wildcard it may be longer, or a path may follow.
        whole = whole[:-1]
    return Globs(spelled(canonical), spelled(unquote), whole)


def skill_globs(glob: str) -> Globs:
    """Return the spellings of a pattern `server.skill` whose skill names are URIs without a scheme."""
    head, dot, name = glob.partition(".")
    if not dot or "://" in name or not name or _WILDCARD.match(name):
        return globs(glob) if "://" in name else Globs(glob, glob, glob)
    mark = f"{head}.skill://"
    found = globs(mark + name)
    return Globs(
        *(f"{head}.{one.removeprefix(mark).removesuffix('/')}" if one.startswith(mark) else glob for one in found)
    )


def _split_wildcards(glob: str) -> tuple[str, str]:
    """Return the part that matches servers, with its dot, and the part that matches their URIs."""
    colon = glob.find(":")
    dot = glob.find(".", 0, colon if colon >= 0 else None)
    if dot >= 0:
        return glob[: dot + 1], glob[dot + 1 :]
    if colon < 0:
        return "", glob
    found = _SCHEME_AT_END.search(glob[:colon])
    assert found is not None, "an empty scheme is found everywhere"
    return glob[: found.start()], glob[found.start() :]


def _bracketed(found: re.Match[str]) -> str:
    return f"[{found[0]}]"
