"""Random edits of tool definitions, each with what it may be classed as at most."""

import copy
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from aggregator.config.server_parts import ChangeClass
from aggregator.domain.schema_walk import positions

Definition = dict[str, Any]

_WORDS: Final = (
    *("always", "first", "send", "secret", "token", "all", "files", "before", "reading", "private", "path", "to"),
    *("this", "address", "never", "ask"),
)


@dataclass(frozen=True, slots=True)
class Edit:
    """An edited definition. `classes` must be among those found, and no others unless `open`; empty: no change."""

    what: str
    definition: Definition
    classes: frozenset[ChangeClass]
    open: bool = False


def random_edit(definition: Definition, chance: random.Random) -> Edit:
    """Return one edit of any kind that this definition allows."""
    while True:
        edit = chance.choice(EDITS)(copy.deepcopy(definition), chance)
        if edit is not None:
            return edit


def attack(definition: Definition, chance: random.Random, edits: int) -> Definition:
    """Return a definition under another name, with so many edits in it."""
    made = copy.deepcopy(definition)
    name = str(made["name"])
    words = name.replace("-", "_").split("_")
    chance.shuffle(words)
    made["name"] = chance.choice(
        (f"{name}_v2", f"{'_'.join(words)}_x", f"do_{name}", f"tool_{chance.randrange(10_000)}", name.swapcase() + "1")
    )
    if "title" in made and chance.random() < 0.5:
        made["title"] = made["name"]
    for _ in range(edits):
        edited = chance.choice((_word, _sentence, _no_sentence, _property, _no_property, _required, _text))(
            made, chance
        )
        made = made if edited is None else edited.definition
    return made


def _change(what: str, definition: Definition, *classes: ChangeClass, more: bool = False) -> Edit:
    return Edit(what, definition, frozenset(classes), more)


def _described(definition: Definition) -> list[str]:
    text = definition.get("description")
    return text.split(" ") if isinstance(text, str) else []


def _word(definition: Definition, chance: random.Random) -> Edit | None:
    words = _described(definition)
    if not words:
        return None
    at = chance.randrange(len(words))
    words[at] = chance.choice([word for word in _WORDS if word != words[at].strip()])
    definition["description"] = " ".join(words)
    return _change("another word in the description", definition, "description")


def _sentence(definition: Definition, chance: random.Random) -> Edit | None:
    words = _described(definition)
    at = chance.randrange(len(words) + 1)
    definition["description"] = " ".join([*words[:at], *chance.choices(_WORDS, k=8), *words[at:]])
    return _change("a sentence more in the description", definition, "description")


def _no_sentence(definition: Definition, chance: random.Random) -> Edit | None:
    text = definition.get("description")
    sentences = text.split(". ") if isinstance(text, str) else []
    if len(sentences) < 2 or not any(one.strip() for one in sentences[1:]):
        return None
    del sentences[chance.choice([at for at, one in enumerate(sentences) if one.strip()])]
    definition["description"] = ". ".join(sentences)
    return _change("a sentence less in the description", definition, "description")


def _letter(definition: Definition, chance: random.Random) -> Edit | None:
    said = definition.get("description")
    text = said if isinstance(said, str) else ""
    places = [at for at, sign in enumerate(text) if not sign.isspace()]
    if not places:
        return None
    at = chance.choice(places)
    sign = chance.choice([one for one in ("\u0430", "\u200b", "\U000e0041", "x", "") if one != text[at]])
    definition["description"] = text[:at] + sign + text[at + 1 :]
    return _change("another letter in the description", definition, "description")


def _title(definition: Definition, chance: random.Random) -> Edit | None:
    definition["title"] = f"{definition.get('title', '')}{chance.choice(_WORDS)}"
    return _change("another title", definition, "description")


def _nodes(definition: Definition, member: str = "inputSchema") -> Iterator[dict[str, Any]]:
    schema = definition.get(member)
    for _, node in positions(schema):
        if isinstance(node, dict):
            yield node
            if node is schema and node.get("type", "object") != "object":
                # What is inside means nothing.
                return


def _one(definition: Definition, chance: random.Random, keyword: str, kind: type) -> dict[str, Any] | None:
    found = [node for node in _nodes(definition) if isinstance(node.get(keyword), kind) and node[keyword]]
    return chance.choice(found) if found else None


def _object(definition: Definition, chance: random.Random) -> dict[str, Any] | None:
    """Return a schema with properties that takes objects: of another type, its properties mean nothing."""
    node = _one(definition, chance, "properties", dict)
    return node if node is not None and node.get("type", "object") == "object" else None


def _text(definition: Definition, chance: random.Random) -> Edit | None:
    node = _one(definition, chance, "description", str)
    if node is None:
        return None
    node["description"] = f"{node['description']} {' '.join(chance.choices(_WORDS, k=3))}"
    return _change("another text in the schema", definition, "description")


def _default(definition: Definition, chance: random.Random) -> Edit | None:
    found = [node for node in _nodes(definition) if "default" in node]
    if not found:
        return None
    node = chance.choice(found)
    node["default"] = [node["default"]]
    return _change("another default", definition, "description")


def _property(definition: Definition, chance: random.Random) -> Edit | None:
    node = _object(definition, chance)
    if node is None:
        return None
    name = f"{chance.choice(_WORDS)}_{chance.randrange(100)}"
    node["properties"][name] = {"type": "string", "description": " ".join(chance.choices(_WORDS, k=4))}
    if chance.random() < 0.3:
        node["required"] = [*node.get("required", []), name]
        return _change("a required property more", definition, "wider", more=True)
    return _change("a property more", definition, "wider")


def _no_property(definition: Definition, chance: random.Random) -> Edit | None:
    node = _object(definition, chance)
    if node is None:
        return None
    name = chance.choice(list(node["properties"]))
    del node["properties"][name]
    if isinstance(node.get("required"), list) and name in node["required"]:
        node["required"].remove(name)
        return _change("a required property less", definition, "wider", more=True)
    return _change("a property less", definition, more=True)


def _required(definition: Definition, chance: random.Random) -> Edit | None:
    node = _object(definition, chance)
    if node is None:
        return None
    listed = node.get("required")
    required: list[str] = listed if isinstance(listed, list) else []
    free = [name for name in node["properties"] if name not in required]
    if free and chance.random() < 0.5:
        node["required"] = [*required, chance.choice(free)]
        return _change("more is required", definition, more=True)
    if not required:
        return None
    node["required"] = [name for name in required if name != chance.choice(required)]
    return None if len(node["required"]) == len(required) else _change("less is required", definition, "wider")


def _type(definition: Definition, chance: random.Random) -> Edit | None:
    node = _one(definition, chance, "type", str)
    if node is None or "enum" in node:
        return None
    other = chance.choice([kind for kind in ("string", "integer", "boolean", "array", "null") if kind != node["type"]])
    # Whole numbers are numbers: that one way is narrower.
    less = (node["type"], other) == ("number", "integer")
    node["type"] = other
    less_and_more: tuple[ChangeClass, ...] = () if less else ("narrower", "wider")
    return _change("another type", definition, *less_and_more, more=less)


def _enum(definition: Definition, chance: random.Random) -> Edit | None:
    node = _one(definition, chance, "enum", list)
    if node is None or node.get("type", "string") != "string":
        return None
    if len(node["enum"]) > 1 and chance.random() < 0.5:
        del node["enum"][chance.randrange(len(node["enum"]))]
        return _change("a value less", definition, more=True)
    node["enum"] = [*node["enum"], f"{chance.choice(_WORDS)}!"]
    return _change("a value more", definition, "wider")


def _bound(definition: Definition, chance: random.Random) -> Edit | None:
    found = list(_nodes(definition))
    if not found:
        return None
    node = chance.choice(found)
    keyword = chance.choice(("minLength", "maxLength", "minimum", "maximum", "multipleOf", "pattern", "format"))
    if keyword in node:
        del node[keyword]
        return _change("a bound less", definition, "wider")
    node[keyword] = chance.choice(("^a+$", "x")) if keyword in ("pattern", "format") else 5
    return _change("a bound more", definition, more=True)


def _open(definition: Definition, chance: random.Random) -> Edit | None:
    found = [node for node in _nodes(definition) if node.get("additionalProperties") is False]
    if not found:
        return None
    chance.choice(found)["additionalProperties"] = True
    return _change("more properties let through", definition, "wider")


def _number(definition: Definition, chance: random.Random) -> Edit | None:
    found = [
        (node, keyword)
        for node in _nodes(definition)
        for keyword, value in node.items()
        if keyword in ("default", "minimum", "maximum", "minLength", "maxLength") and type(value) is int
    ]
    if not found:
        return None
    node, keyword = chance.choice(found)
    node[keyword] = float(node[keyword])
    return _change("a whole number as a fraction", definition)


def _output(definition: Definition, chance: random.Random) -> Edit | None:
    if "outputSchema" in definition and chance.random() < 0.3:
        del definition["outputSchema"]
        return _change("no output schema", definition, "output")
    schema = definition.setdefault("outputSchema", {"type": "object"})
    if not isinstance(schema, dict):
        return None
    schema["properties"] = {**schema.get("properties", {}), f"more_{chance.randrange(100)}": {"type": "string"}}
    return _change("another output schema", definition, "output")


def _annotation(definition: Definition, chance: random.Random) -> Edit | None:
    hints = definition.get("annotations")
    hints = definition["annotations"] = dict(hints) if isinstance(hints, dict) else {}
    name, usual, safer = chance.choice(
        (
            ("readOnlyHint", False, True),
            ("destructiveHint", True, False),
            ("idempotentHint", False, True),
            ("openWorldHint", True, False),
        )
    )
    if hints.get(name, usual) is safer:
        hints[name] = not safer
        return _change("annotations that look less safe", definition, "other_annotations")
    hints[name] = safer
    return _change("annotations that look safer", definition, "safer_annotations")


def _icon(definition: Definition, chance: random.Random) -> Edit | None:
    # Another picture of the same site is cosmetic.
    site = f"{chance.choice(_WORDS)}{chance.randrange(10**6)}"
    definition["icons"] = [{"src": f"https://{site}.example/{chance.randrange(100)}.png"}]
    return _change("an icon", definition, "other")


def _app(definition: Definition, chance: random.Random) -> Edit | None:
    meta = definition.get("_meta")
    definition["_meta"] = {
        **(meta if isinstance(meta, dict) else {}),
        "ui": {"resourceUri": f"ui://{chance.randrange(1000)}"},
    }
    return _change("another app", definition, "other")


def _unknown(definition: Definition, chance: random.Random) -> Edit | None:
    definition[f"x-{chance.choice(_WORDS)}"] = chance.choice((1, True, None, "short", {"a": []}))
    return _change("an unknown member", definition, "other")


def _anywhere(definition: Definition, chance: random.Random) -> Edit | None:
    """Replace one value that is no object or list, at any place but in a name, icons and `_meta`."""
    places: list[tuple[Any, Any]] = []
    waiting: list[Any] = [{name: value for name, value in definition.items() if name not in ("name", "icons", "_meta")}]
    top = waiting[0]
    while waiting:
        one = waiting.pop()
        for key, value in one.items() if isinstance(one, dict) else enumerate(one):
            if isinstance(value, dict | list):
                waiting.append(value)
            else:
                places.append((definition if one is top else one, key))
    if not places:
        return None
    holder, key = chance.choice(places)
    value = holder[key]
    holder[key] = chance.choice([other for other in (0, False, None, "other", 1.5) if not _is_like(other, value)])
    return _change("another value somewhere", definition, more=True)


def _is_like(one: Any, other: Any) -> bool:
    return type(one) is type(other) and one == other


def _spaces(definition: Definition, chance: random.Random) -> Edit | None:
    holders = [one for one in (definition, *_nodes(definition)) if " " in str(one.get("description", ""))]
    if not holders:
        return None
    holder = chance.choice(holders)
    if not isinstance(holder["description"], str):
        return None
    at = chance.choice([at for at, sign in enumerate(holder["description"]) if sign == " "])
    text = holder["description"]
    holder["description"] = text[:at] + chance.choice(("\n", "  ", "\n\n  ")) + text[at + 1 :]
    return _change("other white space", definition, "cosmetic")


def _order(definition: Definition, chance: random.Random) -> Edit | None:
    node = _one(definition, chance, "enum", list)
    if node is None or len(node["enum"]) < 2 or node["enum"] == node["enum"][::-1]:
        return None
    node["enum"].reverse()
    return _change("values in another order", definition, "cosmetic")


def _members(definition: Definition, chance: random.Random) -> Edit | None:
    return _change("members in another order", reordered(definition, chance))


def reordered(value: Any, chance: random.Random) -> Any:
    """Return a value with the members of its objects in another order."""
    if isinstance(value, dict):
        names = list(value)
        chance.shuffle(names)
        return {name: reordered(value[name], chance) for name in names}
    return [reordered(one, chance) for one in value] if isinstance(value, list) else value


EDITS: Final[tuple[Callable[[Definition, random.Random], Edit | None], ...]] = (
    *(_word, _sentence, _no_sentence, _letter, _title, _text, _default, _property, _no_property, _required, _type),
    *(_enum, _bound, _open, _number, _output, _annotation, _icon, _app, _unknown, _anywhere, _spaces, _order),
    _members,
)
