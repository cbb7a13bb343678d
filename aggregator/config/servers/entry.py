"""One entry of `mcpServers` before it is validated: references resolved, keys of other hosts translated, named."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Final

from aggregator.config.files.jsonfile import JsonObject
from aggregator.config.files.report import Report, Where, nearest
from aggregator.config.files.wording import ConfigComplaint
from aggregator.config.server_config import GROUPS
from aggregator.config.servers.complete import UnresolvedText, complete_entry
from aggregator.config.servers.expand import Expander
from aggregator.config.servers.foreign import ENV_FILE, OWN_KEYS, TOOL_LISTS, Translated, is_comment, translate
from aggregator.config.servers.late import sort_out, under_our_names
from aggregator.config.servers.names import usable
from aggregator.secret_sources.reference import DeferredText

# Each option and the group that it stands in; "" for the entry itself, which goes first.
_PLACES: Final[Mapping[str, str]] = {
    **{option: group for group, model in GROUPS.items() for option in model.model_fields},
    **dict.fromkeys(OWN_KEYS, ""),
}
# The group whose options other hosts have in the entry itself: without a meaning here they harm nothing.
_SIGN_IN: Final = "auth"
_NOT_ONCE = "This key is not known. Each replica would start the server, which must run once, so it is not used."
_RUN_ONCE = (
    'Remove "replicas", and give the server an aggregator of its own (docs/scaling.md, "A server that must run once").'
)
_MAY_BE_BLANK = ("command", "url", "target", "proxy", "cwd", "description")


@dataclass
class ServerEntry:
    """One entry of the file, and the report that its problems go to.

    `raw` is the entry as written, `where` its path in the file, `translated` its fields under our names, `gaps` the
    texts whose references cannot be resolved, `late` those that are completed for each connection, `changed` the fields
    that the environment replaced, `moved` the paths of options that are read as if they stood in their place.
    """

    key: str
    raw: Mapping[str, object]
    where: Where
    report: Report
    translated: Translated
    gaps: list[UnresolvedText]
    late: tuple[DeferredText, ...] = ()
    changed: set[str] = field(default_factory=set)
    moved: tuple[Where, ...] = ()
    id: str = ""

    @property
    def fields(self) -> dict[str, object]:
        """The fields of the entry under our names."""
        return self.translated.fields

    def field_of(self, gap: UnresolvedText) -> str:
        """Return our name of the field that a gap is in."""
        key = str(gap.where[0])
        if key == ENV_FILE:
            return "env"
        return next((name for name, written in self.translated.written.items() if written == key), key)

    def place(self, path: Where) -> Where:
        """Return the path in the entry as written for a path under our names."""
        if not path:
            return ()
        name = self.translated.written.get(str(path[0]), str(path[0]))
        is_list = name in TOOL_LISTS or (name == "tools" and isinstance(self.raw.get(name), list))
        return (name, *path[2 if is_list else 1 :])

    def error(self, found: ConfigComplaint) -> None:
        """Report a complaint for which the entry is left out; its path is one under our names."""
        self.report.error((*self.where, *self.place(found.where)), found.message, found.fix, self._name)

    def warn(self, found: ConfigComplaint) -> None:
        """Report a complaint that leaves the entry in use; its path is one under our names."""
        self.report.warning((*self.where, *self.place(found.where)), found.message, found.fix, self._name)

    @property
    def _name(self) -> str:
        return self.id or usable(self.key) or self.key


def fill(key: str, raw: Mapping[str, object], where: Where, report: Report, expander: Expander) -> ServerEntry:
    """Return an entry with its references resolved but for secrets; those that cannot be are in `gaps`."""
    in_place, moved = _put_in_place(raw)
    filled, found_late, gaps = complete_entry(in_place, expander)
    late, misplaced = sort_out(found_late)
    gaps += misplaced
    translated = translate(filled)
    entry = ServerEntry(key, raw, where, report, translated, gaps, under_our_names(late, translated.written))
    entry.moved = moved
    for name in _MAY_BE_BLANK:
        if entry.fields.get(name) == "":
            del entry.fields[name]
    return entry


def _put_in_place(raw: Mapping[str, object]) -> tuple[Mapping[str, object], tuple[Where, ...]]:
    """Return an entry with each misplaced option where it belongs, and the paths that those options had.

    An option whose place is taken, or is no object, stays.
    """
    # By group; "" is the entry itself.
    parts: dict[str, dict[str, object]] = {"": {}}
    for key, value in raw.items():
        if key in GROUPS and isinstance(value, Mapping):
            parts[key] = dict(value)
        else:
            parts[""][key] = value
    moved: list[Where] = []
    for group, options in [*parts.items()]:
        known: Collection[str] = GROUPS[group].model_fields if group else OWN_KEYS
        for key in [key for key, value in options.items() if key not in known and value is not None]:
            target = _PLACES.get(key, _SIGN_IN)
            taken = target in parts[""] or (not target and key in parts)
            if target == _SIGN_IN or taken or parts.get(target, {}).get(key) is not None:
                continue
            parts.setdefault(target, {})[key] = options.pop(key)
            moved.append((group, key) if group else (key,))
    if not moved:
        return raw, ()
    return {**parts.pop(""), **{group: options for group, options in parts.items() if options}}, tuple(moved)


def name(entry: ServerEntry) -> bool:
    """Set the id and the prefix of an entry; report an error and return False if its key allows none."""
    own = entry.fields.get("prefix")
    made = usable(entry.key)
    if own is not None and not isinstance(own, str):
        entry.id = made or entry.key  # the validation of the fields reports the prefix
        return True
    prefix = made if own is None else usable(own) if own else ""
    entry.id = made or prefix or ""
    if prefix is None or not entry.id:
        place, what = (("prefix",), "prefix") if own is not None else ((), "key")
        message = f"The {what} has no letter or digit of A-Z, a-z, 0-9 to name tools by."
        entry.error(ConfigComplaint(place, message, 'Write a "prefix" that has, such as "maps".'))
        return False
    if own is not None and prefix != own:
        message = f"Tool names cannot hold this prefix; it is `{prefix}` here."
        entry.warn(ConfigComplaint(("prefix",), message, f'Write "{prefix}", or choose another.'))
    if own is None and prefix != entry.key:
        message = f"Tool names cannot hold this key; the server is called `{prefix}` here."
        entry.warn(ConfigComplaint((), message, 'Rename the key, or choose a "prefix".'))
    entry.fields["prefix"] = prefix
    return True


def note_keys(entry: ServerEntry) -> bool:
    """Report keys that are unknown, misplaced or repeated, and remove them from nested objects.

    Return False if the entry must not be used without what such a key says.
    """
    for where in entry.moved:
        belongs, fix = _place_of(where)
        entry.warn(ConfigComplaint(where, f"This option belongs in {belongs}. It is read as if it stood there.", fix))
    runs_once = entry.raw.get("replicas") == "one"
    misplaced = False
    for key in entry.translated.unknown:
        if key == "replicas" and runs_once:
            entry.error(ConfigComplaint((key,), _NOT_ONCE, _RUN_ONCE))
        else:
            misplaced |= _is_misplaced(entry, (key,), OWN_KEYS)
    _note_repeated(entry, (), entry.raw)
    for group, model in GROUPS.items():
        value = entry.fields.get(group)
        if isinstance(value, Mapping):
            known = tuple(model.model_fields)
            for key in value:
                if key not in known:
                    misplaced |= _is_misplaced(entry, (group, key), known)
            _note_repeated(entry, (group,), entry.raw.get(group))
            entry.fields[group] = {key: item for key, item in value.items() if key in known and item is not None}
    return not runs_once and not misplaced


def _note_repeated(entry: ServerEntry, where: Where, written: object) -> None:
    for key in written.repeated if isinstance(written, JsonObject) else ():
        said = "This key is there more than once; the last one counts."
        entry.warn(ConfigComplaint((*where, key), said, "Remove the others."))


def _is_misplaced(entry: ServerEntry, where: tuple[str, ...], known: Collection[str]) -> bool:
    """Report an unknown key; return True if it is an option of another place, which the entry is not used without."""
    key, here = where[-1], where[:-1]
    if is_comment(key):
        return False
    group = _PLACES.get(key)
    if group is None:
        hint = _meant(key, here, known)
        entry.warn(ConfigComplaint(where, "This key is not known and has no effect.", hint or "Remove it."))
        return False
    belongs, fix = _place_of(where)
    found = ConfigComplaint(where, f"This option belongs in {belongs}, and has no effect here.", fix)
    if group == _SIGN_IN:
        entry.warn(found)
        return False
    entry.error(found)
    return True


def _place_of(where: Where) -> tuple[str, str]:
    """Return the place of a misplaced option in words, and what to write."""
    *here, key = where
    group = _PLACES[str(key)]
    if group:
        return f"`{group}`", f'Write "{group}": {{"{key}": ...}} in the entry.'
    return "the entry itself", f'Write it beside "{here[0]}".'


def _meant(key: str, here: Where, known: Collection[str]) -> str | None:
    """Return the option that was probably meant, as a question with its place; None if none is near."""
    option = nearest(key, _PLACES)
    if option is None:
        return None
    group = _PLACES[option]
    if option in known:
        return f"Did you mean `{option}`?"
    return f"Did you mean `{group}.{option}`?" if group else f'Did you mean `{option}`, beside "{here[0]}"?'
