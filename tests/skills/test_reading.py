"""What is read of a skill is what its entry says, to the byte, or it is not given to a host."""

import base64
from hashlib import sha256
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aggregator.skills.catalog import SkillFile
from aggregator.skills.files import _compared, _FileText, frontmatter_fault
from tests.end_to_end.scripted_host import LEGACY, MODERN, ScriptedHost
from tests.peers.toolbox import Json
from tests.polling import until
from tests.skills.conftest import OpenHarness
from tests.skills.skill_server import FORMS, LOGO, SkillServer, git_workflow, local, skill_md

GIT: Final = "skill://docs/git-workflow"
OWN: Final = "skill://git-workflow"
EVIL: Final = "EVIL INSTRUCTIONS"


def server() -> SkillServer:
    docs = SkillServer()
    docs.add_skill("git-workflow", git_workflow())
    return docs


async def refused(host: ScriptedHost, uri: str) -> Json:
    """The error of a read whose content is not that of the entry."""
    error = await host.ask("resources/read", {"uri": uri}).error()
    assert error["data"]["code"] == "skill_mismatch", error
    assert error["data"]["skill"] == "docs.git-workflow"
    assert EVIL not in str(error)
    return error


@pytest.mark.parametrize("version", [LEGACY[-1], MODERN])
@pytest.mark.parametrize(
    ("path", "content", "said"),
    [
        ("references/FORMS.md", EVIL, "bytes, not"),
        ("references/FORMS.md", FORMS.replace("Fill", "Kill"), "its digest is another"),
        ("references/FORMS.md", FORMS + EVIL * 100_000, "more than"),
        ("assets/logo.bin", LOGO[::-1], "its digest is another"),
        ("assets/logo.bin", LOGO + b"x", "bytes, not"),
        ("assets/logo.bin", "x", "bytes, not"),
        ("SKILL.md", skill_md("git-workflow", EVIL), "bytes, not"),
    ],
)
async def test_content_that_differs_is_refused(
    open_harness: OpenHarness, version: str, path: str, content: str | bytes, said: str
) -> None:
    """Proves: F43"""
    docs = server()
    docs.files[f"{OWN}/{path}"] = content
    harness = open_harness({"docs": local(docs)})
    async with harness.host("http", version) as host:
        error = await refused(host, f"{GIT}/{path}")
        assert said in error["message"]
        assert path in error["message"]
        # The rest of the skill goes on.
        other = "references/FORMS.md" if path == "assets/logo.bin" else "assets/logo.bin"
        assert "contents" in await host.ask("resources/read", {"uri": f"{GIT}/{other}"}).result()
    rows = await harness.rows(2)
    assert [(row["status"], row.get("error_code")) for row in rows] == [("error", "skill_mismatch"), ("ok", None)]
    assert EVIL not in str(rows)


@pytest.mark.parametrize(
    "contents",
    [
        [],
        [{"uri": f"{OWN}/references/FORMS.md", "text": FORMS}, {"uri": "x://y", "text": EVIL}],
        [{"uri": f"{OWN}/references/FORMS.md", "text": FORMS, "blob": "RVZJTA=="}],
        [{"uri": f"{OWN}/references/FORMS.md", "blob": "é"}],
        [{"uri": f"{OWN}/references/FORMS.md", "text": 7}],
        [None],
        ["x"],
    ],
)
async def test_content_that_is_not_one_file_is_refused(open_harness: OpenHarness, contents: list[Any]) -> None:
    docs = server()
    docs.mixed[f"{OWN}/references/FORMS.md"] = contents
    harness = open_harness({"docs": local(docs)})
    async with harness.host("http", MODERN) as host:
        await refused(host, f"{GIT}/references/FORMS.md")


async def test_a_text_may_come_as_bytes(open_harness: OpenHarness) -> None:
    docs = server()
    encoded = base64.b64encode(FORMS.encode()).decode()
    docs.mixed[f"{OWN}/references/FORMS.md"] = [{"uri": f"{OWN}/references/FORMS.md", "blob": encoded}]
    harness = open_harness({"docs": local(docs)})
    async with harness.host("http", MODERN) as host:
        result = await host.ask("resources/read", {"uri": f"{GIT}/references/FORMS.md"}).result()
        assert result["contents"][0]["blob"] == encoded


async def test_no_character_of_a_file_is_changed(open_harness: OpenHarness) -> None:
    """What cannot be seen, and what looks like a secret, stays in a file: its bytes are those of the digest."""
    docs = SkillServer()
    text = skill_md("odd", "Odd") + "zero\u200bwidth \u202e rtl \x07 bell\r\nsk-ant-api03-" + "A" * 90 + "\n"
    docs.add_skill("odd", {"SKILL.md": text})
    harness = open_harness({"docs": local(docs)})
    async with harness.host("http", MODERN) as host:
        result = await host.ask("resources/read", {"uri": "skill://docs/odd/SKILL.md"}).result()
        assert result["contents"][0]["text"] == text


async def test_after_a_mismatch_the_list_is_read_again(open_harness: OpenHarness) -> None:
    """A server that changed a skill without a word is read once more, and then serves it."""
    docs = server()
    docs.tells = False
    harness = open_harness({"docs": local(docs, on_change="warn")})
    async with harness.host("http", MODERN) as host:
        files = {**git_workflow(), "references/FORMS.md": "other"}
        docs.skills = []
        docs.add_skill("git-workflow", files)
        await refused(host, f"{GIT}/references/FORMS.md")
        await until(lambda: docs.requests.count(("skills/list", None)) == 2)
        digest = f"sha256:{sha256(b'other').hexdigest()}"
        while digest not in str(await host.ask("skills/list").result()):
            pass
        result = await host.ask("resources/read", {"uri": f"{GIT}/references/FORMS.md"}).result()
        assert result["contents"][0]["text"] == "other"


async def test_a_file_of_a_nested_skill_is_compared_with_both(open_harness: OpenHarness) -> None:
    docs = SkillServer()
    inner: dict[str, str | bytes] = {"SKILL.md": skill_md("inner", "Inside"), "a.md": "a"}
    outer = {"SKILL.md": skill_md("outer", "Outside"), **{f"inner/{path}": text for path, text in inner.items()}}
    docs.add_skill("outer", outer)
    docs.add_skill("outer/inner", inner)
    harness = open_harness({"docs": local(docs)})
    async with harness.host("http", MODERN) as host:
        uri = "skill://docs/outer/inner/SKILL.md"
        assert "contents" in await host.ask("resources/read", {"uri": uri}).result()
        docs.files["skill://outer/inner/a.md"] = EVIL
        error = await host.ask("resources/read", {"uri": "skill://docs/outer/inner/a.md"}).error()
        assert error["data"]["skill"] == "docs.outer"


@pytest.mark.parametrize(
    ("text", "fine"),
    [
        (skill_md("daily", "Of today"), True),
        (skill_md("daily", EVIL), False),
        (skill_md("other", "Of today"), False),
        (skill_md("daily", "Of today", hooks="rm"), False),
        ("no frontmatter", False),
        ("---\nname: [\n---\n", False),
    ],
)
async def test_a_dynamic_skill_has_at_least_its_frontmatter(open_harness: OpenHarness, text: str, fine: bool) -> None:
    docs = SkillServer()
    docs.add_skill("daily", {"SKILL.md": skill_md("daily", "Of today"), "a.md": "a"}, dynamic=True)
    docs.files["skill://daily/SKILL.md"] = text
    docs.files["skill://daily/a.md"] = "anything"
    harness = open_harness({"docs": local(docs)})
    async with harness.host("http", MODERN) as host:
        message = await host.ask("resources/read", {"uri": "skill://docs/daily/SKILL.md"}).message()
        assert ("result" in message) == fine
        assert "result" in await host.ask("resources/read", {"uri": "skill://docs/daily/a.md"}).message()


@pytest.mark.parametrize(
    ("yaml", "entry"),
    [
        ("a: 1\nb: 1.0\nc: true\nd: yes\ne:\nf: ~", {"a": 1, "b": 1, "c": True, "d": True, "e": None, "f": None}),
        ("a: 1\nb: yes\nc: 1.0", {"a": "1", "b": "yes", "c": "1.0"}),
        ("a: 2026-01-02\nb: 2026-01-02", {"a": "2026-01-02", "b": "2026-01-02T00:00:00.000Z"}),
        ("a: >\n  folded\n  text\nb: |\n  kept\n", {"a": "folded text\n", "b": "kept\n"}),
        ("a: {x: [1, two]}\nb: [a, b]", {"a": {"x": [1, "two"]}, "b": ["a", "b"]}),
        ("a: &x [1]\nb: *x", {"a": [1], "b": [1]}),
        ("a: 'é'", {"a": "é"}),
    ],
)
def test_frontmatter_is_what_some_reader_of_yaml_makes_of_it(yaml: str, entry: Json) -> None:
    for text in (f"---\n{yaml}\n---\nbody", f"\ufeff---\r\n{yaml}\r\n---\r\n", f"---\n{yaml}\n---"):
        assert frontmatter_fault(text.encode(), entry, verified=False) is None
        assert frontmatter_fault(text.encode(), {**entry, "more": 1}, verified=True) is not None
        assert frontmatter_fault(text.encode(), dict(list(entry.items())[1:]), verified=True) is not None


@pytest.mark.parametrize(
    ("yaml", "entry"),
    [
        ("a: one", {"a": "two"}),
        ("a: one", {"a": ["one"]}),
        ("a: [one]", {"a": ["one", "two"]}),
        ("a: {b: c}", {"a": {"b": "d"}}),
        ("a: true", {"a": False}),
        ("a: no", {"a": True}),
        ("a: 1", {"a": 2}),
        ("a: 2026-01-02", {"a": "2026-01-03"}),
        ("a:", {"a": "x"}),
        ("- a", {"a": 1}),
        ("a: nan", {"a": 1}),
    ],
)
def test_frontmatter_that_says_otherwise_is_found(yaml: str, entry: Json) -> None:
    assert frontmatter_fault(f"---\n{yaml}\n---\n".encode(), entry, verified=True) is not None


@pytest.mark.parametrize(
    "text",
    ["---\n" + "a: " + "[" * 10_000 + "\n---\n", "---\na: b: c\n---\n", "---\n\x00\n---\n", "---\n!!python/x\n---"],
)
def test_what_our_reader_does_not_understand_counts_only_where_nothing_else_is_known(text: str) -> None:
    assert frontmatter_fault(text.encode(), {"a": 1}, verified=False) is not None
    assert frontmatter_fault(text.encode(), {"a": 1}, verified=True) is None


@given(st.binary(max_size=300), st.binary(max_size=300), st.booleans())
def test_only_the_very_bytes_of_an_entry_pass(listed: bytes, read: bytes, close: bool) -> None:
    read = listed if close else read
    file = SkillFile("x", f"sha256:{sha256(listed).hexdigest()}", len(listed))
    text = _FileText(base64.b64encode(read).decode(), encoded=True)
    assert (_compared(text, file, None) is None) == (listed == read)
