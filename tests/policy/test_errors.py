"""What is wrong with a file is said with its file and line, what is the matter, and how to mend it."""

import pytest
import yaml
from jsonschema import Draft202012Validator

from aggregator.policy.files.checking import KEYWORDS, find_mistakes
from aggregator.policy.files.yamltree import DEEPEST, MOST_VALUES, YamlError, parse

from .build import checked, errors

AGENT = "agents:\n  a:\n"

TABLE: dict[str, tuple[str, str]] = {
    "a word that is not known": (
        AGENT + "    alow: [t.x]\n",
        "error: policies/1.yaml:3: agents.a.alow: There is no key `alow` here. Did you mean `allow`?",
    ),
    "a section that is not known": (
        "agent:\n  a: {}\n",
        "error: policies/1.yaml:1: agent: There is no key `agent` here. Did you mean `agents`?",
    ),
    "keys of a role": (
        "roles:\n  r:\n    keys: [a:b]\n",
        "error: policies/1.yaml:3: roles.r.keys: There is no key `keys` here. Only agents have keys.",
    ),
    "roles of the defaults": (
        "defaults:\n  roles: [r]\n",
        "error: policies/1.yaml:2: defaults.roles: There is no key `roles` here. The defaults take no roles: write "
        "the rules here, or name the roles at each agent.",
    ),
    "a misspelt limit": (
        AGENT + "    limits:\n      t.x: {per_minit: 3}\n",
        'error: policies/1.yaml:4: agents.a.limits["t.x"].per_minit: There is no key `per_minit` here. '
        "Did you mean `per_minute`?",
    ),
    "a misspelt trait": (
        AGENT + "    annotations:\n      destructiv: deny\n",
        "error: policies/1.yaml:4: agents.a.annotations.destructiv: There is no key `destructiv` here. "
        "Did you mean `destructive`?",
    ),
    "a text where a list goes": (
        AGENT + "    allow: t.x\n",
        "error: policies/1.yaml:3: agents.a.allow: Expected a list, got 't.x'. Write a list, such as "
        '["one", "two"], or one item a line after "- ".',
    ),
    "a number where a pattern goes": (
        AGENT + "    allow:\n      - t.x\n      - 12\n",
        "error: policies/1.yaml:5: agents.a.allow[1]: Expected a text, got the number 12. Put the value in quotes.",
    ),
    "a colon with a space": (
        AGENT + "    allow:\n      - server: t\n",
        "error: policies/1.yaml:4: agents.a.allow[0]: Expected a text, got an object. A colon with a space behind it "
        "makes an object: put the text in quotes, or take the space out.",
    ),
    "a word that is nearly one": (
        AGENT + "    denials: hiden\n",
        "error: policies/1.yaml:3: agents.a.denials: Expected explicit or hidden, got 'hiden'. Did you mean `hidden`?",
    ),
    "a limit of nothing": (
        AGENT + "    limits: {t.x: {per_minute: 0}}\n",
        'error: policies/1.yaml:3: agents.a.limits["t.x"].per_minute: Expected a number from 1 up, got the number 0. '
        "Correct the value. To forbid something, write it under `deny`.",
    ),
    "a limit that is no number": (
        AGENT + "    limits: {t.x: {per_minute: true}}\n",
        'error: policies/1.yaml:3: agents.a.limits["t.x"].per_minute: Expected a whole number from 1 up, got true. '
        "Correct the value.",
    ),
    "a size that is none": (
        AGENT + "    limits: {t.x: {result_bytes: much}}\n",
        'error: policies/1.yaml:3: agents.a.limits["t.x"].result_bytes: Expected a number of bytes or a text like '
        "\"4MiB\", got 'much'. Correct the value.",
    ),
    "a key that is none": (
        AGENT + "    keys: [agk_secret]\n",
        "error: policies/1.yaml:3: agents.a.keys[0]: This is not KEYID:HASH. `aggregator keys new AGENT --print-hash` "
        "prints such a line; the key itself never stands in a file.",
    ),
    "an agent without a name": (
        "agents:\n  a b: {}\n",
        'error: policies/1.yaml:2: agents["a b"]: This is not a name. Use A-Z, a-z, 0-9 and . _ -, beginning with a '
        "letter or a digit.",
    ),
    "a role there is not": (
        "roles:\n  reader: {}\nagents:\n  a:\n    roles:\n      - raeder\n",
        "error: policies/1.yaml:6: agents.a.roles: There is no role raeder. Did you mean `reader`?",
    ),
    "a tenant there is not": (
        AGENT + "    tenant: acme\n",
        "error: policies/1.yaml:3: agents.a.tenant: There is no tenant acme. Define it under `tenants:`, in this file "
        "or another.",
    ),
    "roles in a ring": (
        "roles:\n  x: {roles: [y]}\n  y:\n    roles: [z]\n  z: {roles: [x]}\n",
        "error: policies/1.yaml:2: roles.x: Roles inherit each other in a ring: x > y > z > x. Take one of them out.",
    ),
    "a role that is its own": (
        "roles:\n  x:\n    roles: [x]\n",
        "error: policies/1.yaml:3: roles.x: Roles inherit each other in a ring: x > x. Take one of them out.",
    ),
    "a server of two tenants": (
        "tenants:\n  n: {servers: [s]}\n  m:\n    servers: [s]\n",
        "error: policies/1.yaml:2: tenants.n.servers: Server s belongs to tenant m already (policies/1.yaml:4). "
        "A server has one tenant, or none and is seen by all: take it out of one.",
    ),
    "a key of two agents": (
        "agents:\n  a: {keys: [k:h1]}\n  b: {keys: [k:h2]}\n",
        "error: policies/1.yaml:3: agents.b.keys: The key id k is there already, for agent a (policies/1.yaml:2). "
        "A key stands for one agent: make another.",
    ),
    "roles that bind differently": (
        "roles:\n  r: {bindings: {p: x}}\n  s: {bindings: {p: y}}\nagents:\n  a: {roles: [s, r]}\n",
        "error: policies/1.yaml:5: agents.a: Its roles differ on `bindings.p`: x (role r, policies/1.yaml:2) and y "
        "(role s, policies/1.yaml:3). Write `bindings.p` at agent a itself.",
    ),
    "roles that spell differently": (
        "roles:\n  r: {names: canonical}\n  s: {names: compatible}\nagents:\n  a: {roles: [s, r]}\n",
        "error: policies/1.yaml:5: agents.a: Its roles differ on `names`: canonical (role r, policies/1.yaml:2) and "
        "compatible (role s, policies/1.yaml:3). Write `names` at agent a itself.",
    ),
    "a pattern without a server": (
        AGENT + "    allow: [convert_time]\n",
        "error: policies/1.yaml:3: agents.a.allow[0]: This can match nothing: a full name is server.tool. Write "
        '"convert_time.*" for all of a server\'s, or "*.convert_time" for that name on every server.',
    ),
    "a name as Claude Code spells it": (
        AGENT + "    allow:\n      - time.get\n      - mcp__time__convert_time\n",
        "error: policies/1.yaml:5: agents.a.allow[1]: This can match nothing: a full name is server.tool. "
        'Did you mean "time.convert_time"?',
    ),
    "a name with our own in front": (
        AGENT + "    deny: [mcp__aggregator__time__convert_time]\n",
        "error: policies/1.yaml:3: agents.a.deny[0]: This can match nothing: a full name is server.tool. "
        'Did you mean "time.convert_time"?',
    ),
    "a name with a host's prefix and no server": (
        AGENT + "    deny: [mcp__convert_time]\n",
        "error: policies/1.yaml:3: agents.a.deny[0]: This can match nothing: a full name is server.tool. Write "
        '"convert_time.*" for all of a server\'s, or "*.convert_time" for that name on every server.',
    ),
    "a name with a slash": (
        AGENT + "    deny: [time/convert_*]\n",
        "error: policies/1.yaml:3: agents.a.deny[0]: This can match nothing: the name of a server holds only A-Z, "
        "a-z, 0-9, _ and -, not '/'. Did you mean \"time.convert_*\"?",
    ),
    "a prompt with a slash": (
        AGENT + '    deny: ["prompt:time/ask"]\n',
        "error: policies/1.yaml:3: agents.a.deny[0]: This can match nothing: the name of a server holds only A-Z, "
        "a-z, 0-9, _ and -, not '/'. Did you mean \"prompt:time.ask\"?",
    ),
    "a name with a colon": (
        AGENT + '    deny: ["time:convert_time"]\n',
        "error: policies/1.yaml:3: agents.a.deny[0]: There is no kind 'time'. Did you mean \"time.convert_time\"? "
        "The kinds are resource:, prompt:, skill: and server:.",
    ),
    "a URI without a kind": (
        AGENT + '    deny: ["file:///x"]\n',
        "error: policies/1.yaml:3: agents.a.deny[0]: There is no kind 'file'. The kinds are resource:, prompt:, "
        "skill: and server:.",
    ),
    "a kind that is nearly one": (
        AGENT + '    deny: ["resources:t.*"]\n',
        "error: policies/1.yaml:3: agents.a.deny[0]: There is no kind 'resources'. Did you mean `resource:t.*`?",
    ),
    "a kind that is not needed": (
        AGENT + "    deny: [tool:t.x]\n",
        "error: policies/1.yaml:3: agents.a.deny[0]: A pattern without a kind means tools. Write it without a kind: "
        "t.x",
    ),
    "a server with a dot": (
        AGENT + "    deny: [server:t.x]\n",
        "error: policies/1.yaml:3: agents.a.deny[0]: server: takes the name of a server, which has no dot. For its "
        "tools, write the pattern without `server:`: t.x",
    ),
    "a look-alike": (
        AGENT + "    deny: [ɡithub.*]\n",
        "error: policies/1.yaml:3: agents.a.deny[0]: This can match nothing: the name of a server holds only A-Z, "
        "a-z, 0-9, _ and -, not '\\u0261'. Type the name anew; the character may only look like the right one.",
    ),
    "something that cannot be seen": (
        AGENT + '    deny: ["git\\u200bhub.*"]\n',
        "error: policies/1.yaml:3: agents.a.deny[0]: The pattern holds a character that cannot be seen. Type it anew.",
    ),
    "a bracket that is open": (
        AGENT + '    deny: ["t.[ab"]\n',
        "error: policies/1.yaml:3: agents.a.deny[0]: A [ has no ]. Close it, or write [[] for the character itself.",
    ),
    "a space at the end": (
        AGENT + '    deny: ["t.x "]\n',
        "error: policies/1.yaml:3: agents.a.deny[0]: A pattern is not empty and has no space at its ends. Correct it.",
    ),
    "limits for resources": (
        AGENT + '    limits: {"resource:t.*": {per_minute: 1}}\n',
        'error: policies/1.yaml:3: agents.a.limits["resource:t.*"]: `limits` is for tools. Take resource: patterns '
        "out.",
    ),
    "a binding with a star": (
        AGENT + '    bindings: {"s*": x}\n',
        'error: policies/1.yaml:3: agents.a.bindings["s*"]: A binding is for one name, without wildcards. Write one '
        "line for each tool.",
    ),
    "a schema with a misspelt word": (
        AGENT + "    arguments:\n      t.x:\n        properties:\n          n: {type: integer, maxmum: 3}\n",
        'error: policies/1.yaml:6: agents.a.arguments["t.x"].properties.n.maxmum: JSON Schema has no keyword '
        "`maxmum`: it would have no effect. Did you mean `maximum`?",
    ),
    "a misspelt word in one of several schemas": (
        AGENT + "    arguments:\n      t.x: {allOf: [{properties: {n: {maxmum: 3}}}]}\n",
        'error: policies/1.yaml:4: agents.a.arguments["t.x"].allOf[0].properties.n.maxmum: JSON Schema has no keyword '
        "`maxmum`: it would have no effect. Did you mean `maximum`?",
    ),
    "a schema with an unknown type": (
        AGENT + "    arguments:\n      t.x: {properties: {n: {type: int}}}\n",
        'error: policies/1.yaml:4: agents.a.arguments["t.x"].properties.n.type: There is no type \'int\'. The types '
        "are string, number, integer, boolean, object, array, null.",
    ),
    "a schema that is elsewhere": (
        AGENT + "    arguments:\n      t.x: {$ref: 'http://a/b'}\n",
        'error: policies/1.yaml:4: agents.a.arguments["t.x"].$ref: A schema here refers only into itself. Write '
        "#/$defs/NAME, or copy what is meant.",
    ),
    "an argument without properties": (
        AGENT + "    arguments:\n      t.x: {city: {const: x}}\n",
        'error: policies/1.yaml:4: agents.a.arguments["t.x"].city: JSON Schema has no keyword `city`: it would have '
        "no effect. Names of arguments go under `properties`.",
    ),
    "a key that is there twice": (
        "agents:\n  a: {}\n  b: {}\n  a: {}\n",
        "error: policies/1.yaml:4: 'a' is there twice, first on line 2. Put the two together.",
    ),
    "no object": ("- a\n", "error: policies/1.yaml:1: Expected an object with keys, got a list. Begin with one of "
                  "`agents:`, `roles:`, `tenants:`, `defaults:`, `who:`, `labels:`, `flow:`, `decay:`, "
                  "`conversation:`."),
    "a bare star": (
        AGENT + "    deny:\n      - *.delete_*\n",
        "error: policies/1.yaml:4: A text that begins with * must be in quotes. Write it like this: \"*.delete_*\".",
    ),
    "a bare star in brackets": (
        AGENT + "    deny: [*.delete_*]\n",
        "error: policies/1.yaml:3: A text that begins with * must be in quotes. Write it like this: \"*.delete_*\".",
    ),
    "a bare star and a letter": (
        AGENT + "    deny: [*x]\n",
        "error: policies/1.yaml:3: Nothing is called &x above this line. For the pattern, quote it: \"*x\".",
    ),
    "a tag": (
        AGENT + "    allow: !!python/object:os.system [x]\n",
        "error: policies/1.yaml:3: Tags are not allowed, here 'tag:yaml.org,2002:python/object:os.syst. Quote a text "
        "that begins with !.",
    ),
    "a merge key": (
        "agents:\n  a: &x {}\n  b:\n    <<: *x\n",
        "error: policies/1.yaml:4: Merge keys (<<) are not known here. Give what is shared to a role.",
    ),
    "a second document": (
        "agents: {}\n---\nroles: {}\n",
        "error: policies/1.yaml:2: A second document begins here (---). Put it into a file of its own.",
    ),
    "a tab": ("agents:\n\ta: {}\n", "error: policies/1.yaml:2: YAML does not take tabs for indentation. Use spaces."),
    "a quote that is open": (
        AGENT + "    deny: ['t.x]\n  b: {}\n",
        "error: policies/1.yaml:3: A text that begins here has no closing quote. Close it.",
    ),
    "a list that is open": (
        AGENT + "    deny: [t.x\n  b: {}\n",
        "error: policies/1.yaml:3: A list that begins here with [ is not closed, or a comma is missing in it. "
        "Close it.",
    ),
    "an object that is open": (
        "agents: {a: {},\n",
        "error: policies/1.yaml:1: An object that begins here with { is not closed, or a comma is missing in it. "
        "Close it.",
    ),
    "two colons": (
        AGENT + "    deny: t: x\n",
        "error: policies/1.yaml:3: A colon stands where no value can. Quote a text that holds a colon; check the "
        "indentation.",
    ),
    "a pattern that is none": (
        AGENT + "    arguments: {t.x: {properties: {a: {pattern: '('}}}}\n",
        'error: policies/1.yaml:3: agents.a.arguments["t.x"].properties.a.pattern: This is not a regular expression. '
        "Correct it; put it in single quotes.",
    ),
    "a pattern beyond what counts": (
        AGENT + "    arguments: {t.x: {properties: {a: {pattern: 'a{99999999999}'}}}}\n",
        'error: policies/1.yaml:3: agents.a.arguments["t.x"].properties.a.pattern: This is not a regular expression. '
        "Correct it; put it in single quotes.",
    ),
    "a pattern of names that is none": (
        AGENT + "    arguments: {t.x: {patternProperties: {'[': {}}}}\n",
        'error: policies/1.yaml:3: agents.a.arguments["t.x"].patternProperties["["]: This is not a regular '
        "expression. Correct it; put it in single quotes.",
    ),
    "a required argument that is no name": (
        AGENT + "    arguments: {t.x: {required: [a, 5]}}\n",
        'error: policies/1.yaml:3: agents.a.arguments["t.x"].required: Expected a list of names, got a list. Write the '
        "names of arguments.",
    ),
    "required arguments that are no list": (
        AGENT + "    arguments: {t.x: {required: a}}\n",
        'error: policies/1.yaml:3: agents.a.arguments["t.x"].required: Expected a list of names, got \'a\'. Write the '
        "names of arguments.",
    ),
    "a pattern without quotes": (
        AGENT + "    arguments: {t.x: {properties: {a: {pattern: 5}}}}\n",
        'error: policies/1.yaml:3: agents.a.arguments["t.x"].properties.a.pattern: Expected a regular expression, got '
        "the number 5. Put it in quotes.",
    ),
    "a NUL": (
        AGENT + "    deny: [t.\0]\n",
        "error: policies/1.yaml:3: The file holds a character that YAML does not allow. Remove it.",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("content", "expected"), TABLE.values(), ids=TABLE)
def test_one_error(content: str, expected: str) -> None:
    assert errors(content) == [expected]


@pytest.mark.parametrize("content", [content for content, _ in TABLE.values()], ids=TABLE)
def test_both_parsers_of_pyyaml_say_the_same(content: str) -> None:
    said = []
    for loader in (yaml.SafeLoader, getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
        try:
            said.append(str(parse(content, loader)))
        except YamlError as error:
            said.append(f"{error.line} {error.message} {error.fix}")
    assert said[0] == said[1]


def test_all_errors_of_all_files_at_once_in_order() -> None:
    said = errors("agents:\n  a: {alow: []}\n  b: {deny: [x]}\n", "roles:\n  r: {roles: [q]}\n", "agents: [\n")
    assert [line.split(": ")[1] for line in said] == ["policies/1.yaml:2", "policies/2.yaml:2", "policies/3.yaml:1"]


def test_words_of_yaml_1_2() -> None:
    tree = parse("a: [yes, no, on, 12:30, 2020-01-01, 0x10, 1_000, true, null, 1.5, -3, ~, 017]\nno: 1\n1: 2\n")
    assert tree.value == {
        "a": ["yes", "no", "on", "12:30", "2020-01-01", "0x10", "1_000", True, None, 1.5, -3, None, 17],
        "no": 1,
        "1": 2,
    }


def test_aliases_repeat_what_is_written() -> None:
    made = checked("agents:\n  a: {allow: &usual [t.x, t.y]}\n  b:\n    allow: *usual\n")
    assert made.documents is not None
    places = [(rule.pattern.text, rule.place.line) for rule in made.documents.agents["b"].rules]
    assert places == [("t.x", 2), ("t.y", 2)]


def test_aliases_cannot_blow_up() -> None:
    rows = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    rows += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 9)]
    (said,) = errors("\n".join(rows))
    assert f"The file holds more than {MOST_VALUES:,} values." in said
    assert "policies/1.yaml:6" in said


@pytest.mark.parametrize("content", ["a: &a [*a]", "a: &a {b: *a}", "&a a: *a", "? *a : 1", "*a : 1"])
def test_an_alias_cannot_hold_itself(content: str) -> None:
    (said,) = errors(content)
    assert said.startswith("error: policies/1.yaml:1: ")


def test_every_keyword_of_json_schema_is_known() -> None:
    bounds = {f"{end}{of}" for end in ("min", "max") for of in ("Items", "Length", "Properties", "Contains")}
    assert {*Draft202012Validator.VALIDATORS, *bounds} - KEYWORDS == {"$dynamicRef"}
    for keyword in bounds:
        assert not list(find_mistakes({keyword: 2}, ()))
        assert [len(list(find_mistakes({keyword: wrong}, ()))) for wrong in (-1, 1.5, "2", True)] == [1, 1, 1, 1]


@pytest.mark.parametrize("content", ["[" * 10_000, "{a: " * 10_000, "\n".join(" " * n + "a:" for n in range(1_000))])
def test_depth_is_bounded(content: str) -> None:
    (said,) = errors(content)
    assert f"nested more than {DEEPEST} levels deep" in said
