"""The policies at the console: decisions taken apart, files to read, and edits that are tried and not written."""

import json
from pathlib import Path
from typing import Any

import httpx2
import pytest

from aggregator.app.console import console_parts
from aggregator.frontends.console.pages.policies import PoliciesPage
from aggregator.identity.keys import new_key, policy_line
from aggregator.redaction.redactor import Redactor
from aggregator.storage.audit.rule_counts import RefusalCount
from tests.console.console_harness import OWN_PAGE, ConsoleHarness, post, token
from tests.console.page_reader import PageReader
from tests.end_to_end.scripted_host import MODERN
from tests.peers.serving import BackgroundLoop
from tests.polling import until

# Keys whose hashes must be on no page, however they are written.
KEY, OTHER, ESCAPED = (policy_line(new_key("clerk", now=0.0).record) for _ in range(3))
POLICY = f"""\
roles:
  trade:
    allow: ["shop.*"]
    confirm: [shop.put]
agents:
  clerk:
    roles: [trade]
    deny: ["shop.wipe"]
    confirm_by: queue
    arguments:
      shop.put: {{properties: {{amount: {{maximum: 50}}}}}}
    limits:
      shop.*: {{per_minute: 3, result_bytes: 64KiB, result_tokens: 4000}}
    # the old one: {KEY}
    keys: ["{KEY}"]
  careful:
    allow: ["shop.*"]
  reader:
    allow: [shop.get]
    keys: ["{OTHER}", "{ESCAPED.replace("b2-", "b2" + chr(92) + "x2d", 1)}"]
labels:
  strange: [shop.get]
  outward: [shop.put]
flow:
  - {{after: [strange, private], calls: outward, then: deny}}
"""


@pytest.fixture(scope="module")
def console(background: BackgroundLoop, tmp_path_factory: pytest.TempPathFactory) -> ConsoleHarness:
    """A gateway whose policy is the file `main.yaml`."""
    return ConsoleHarness(
        background,
        tmp_path_factory.mktemp("policies"),
        policies=POLICY,
        audit={"flush_interval": "10ms"},
    )


def folder(console: ConsoleHarness) -> Path:
    assert console.app.live is not None
    return console.app.live.folder


def name(console: ConsoleHarness) -> str:
    """The name of the policy file that has the agents."""
    (found,) = (path.name for path in folder(console).iterdir() if "trade:" in path.read_text(encoding="utf-8"))
    return found


async def data(client: httpx2.AsyncClient, path: str, **fields: str) -> Any:
    answer = await client.post(f"{path}.json", data={"csrf": await token(client), **fields}, headers=OWN_PAGE)
    assert answer.status_code == 200, answer.text
    return answer.json()


def line_of(console: ConsoleHarness, text: str) -> int:
    lines = (folder(console) / name(console)).read_text(encoding="utf-8").split("\n")
    return next(at for at, line in enumerate(lines, 1) if text in line)


async def test_a_decision_names_every_rule_that_spoke_and_the_line_to_change(console: ConsoleHarness) -> None:
    async with console.signed_in("viewer") as client:
        page = (await client.get("/console/policies?agent=clerk&tool=shop.put")).text
        verdict = (await client.get("/console/policies.json?agent=clerk&tool=shop.put")).json()["verdict"]
    assert verdict["sentence"] == "clerk may call shop.put, once a person agreed."
    assert [(one["effect"], one["decides"]) for one in verdict["findings"]] == [("allow", False), ("confirm", True)]
    at = line_of(console, "confirm: [shop.put]")
    assert verdict["findings"][1]["place"] == {
        "text": f"policies/{name(console)}:{at}",
        "href": f"/policies/files/{name(console)}?line={at}#L{at}",
    }
    assert verdict["changes"] == [f'take "shop.put" out of `confirm` of role trade (policies/{name(console)}:{at})']
    assert f'href="/console/policies/files/{name(console)}?line={at}#L{at}"' in page
    assert str(folder(console)) not in page
    assert not PageReader("/console").read(page).problems


async def test_arguments_are_held_against_the_rules_and_stand_in_no_address(console: ConsoleHarness) -> None:
    async with console.signed_in("viewer") as client:
        asked = {"agent": "clerk", "tool": "shop__put", "arguments": '{"amount": 500}'}
        verdict = (await data(client, "/console/policies/explain", **asked))["verdict"]
        assert verdict["sentence"] == "clerk may call shop.put, but not with these arguments."
        (fault,) = verdict["faults"]
        assert (fault["pointer"], fault["got"]) == ("/amount", "a number (500)")
        assert fault["place"]["text"].endswith(f"{name(console)}:{line_of(console, 'maximum: 50')}")
        own = (await data(client, "/console/policies/explain", **{**asked, "arguments": '{"amount": "x"}'}))["verdict"]
        assert own["faults"][0]["rule"] is None
        fits = (await data(client, "/console/policies/explain", **{**asked, "arguments": '{"amount": 5}'}))["verdict"]
        assert (fits["faults"], fits["expect"]) == ([], "confirm")
        for arguments, said in (("[1]", "JSON object"), ("{", "line 1, column 2"), ("{" * 100_000, "not valid JSON")):
            bad = await post(client, "/console/policies/explain", **{**asked, "arguments": arguments})
            assert bad.status_code == 400
            assert said in bad.text
        shown = await post(client, "/console/policies/explain", **asked)
        assert "500" not in str(shown.url)
        assert [form for form, _ in PageReader("/console").read(shown.text).forms if "explain" in form]


async def test_a_decision_after_a_read_names_the_flow_rule_and_its_line(console: ConsoleHarness) -> None:
    async with console.signed_in("viewer") as client:
        asked = {"agent": "careful", "tool": "shop.put", "after": "shop__get\n\n private \n"}
        verdict = (await data(client, "/console/policies/explain", **asked))["verdict"]
        assert verdict["sentence"] == "careful may not call shop.put."
        assert verdict["after"] == [
            {"name": "shop.get", "labels": ["strange"]},
            {"name": "something private", "labels": ["private"]},
        ]
        assert '    after: ["shop.get", "private"]\n    expect: deny\n' in verdict["case"]
        (decides,) = (one for one in verdict["findings"] if one["decides"])
        assert decides["place"]["text"].endswith(f"{name(console)}:{line_of(console, 'after: [strange, private]')}")
        page = await post(client, "/console/policies/explain", **asked)
        assert "After <code><bdi>shop.get</bdi></code> (<bdi>strange</bdi>), <code><bdi>something private" in page.text
        assert ">shop__get\n\n private</textarea>" in page.text
        assert not PageReader("/console").read(page.text).problems
        got = (await client.get("/console/policies.json?agent=careful&tool=shop.put&after=private")).json()["verdict"]
        assert got["expect"] == "allow"
        assert any("after private and strange: it is refused" in one for one in got["conditions"])
        for after, said in (
            ("nothing", "neither a label nor a full name"),
            ("\n".join(["private"] * 21), "At most 20"),
        ):
            bad = await post(client, "/console/policies/explain", **{**asked, "after": after})
            assert bad.status_code == 400
            assert said in bad.text


async def test_a_refusal_by_a_flow_rule_names_the_rule_to_change(console: ConsoleHarness) -> None:
    """Without the reads before it, such a call is allowed: that says nothing about the refusal."""
    page = PoliciesPage(console_parts(console.app, Redactor()))
    refused = RefusalCount("careful", "shop.put", "flow: after strange, calls outward", "policies/main.yaml:5", 1, 0.0)
    assert page._allowing(refused) == ["change flow: after strange, calls outward (policies/main.yaml:5)"]


async def test_an_edit_of_labels_says_which_tools_get_them(console: ConsoleHarness) -> None:
    text = "labels: {strange: [shop.wipe]}\n"
    async with console.signed_in("operator") as client:
        tried = await data(client, "/console/policies/diff", name="more.yaml", text=text)
    lines = tried["result"]["confirmers"]
    assert lines == [
        'label strange: "shop.wipe" added (policies/more.yaml:1); 1 tool gets it (shop.wipe)',
    ]


async def test_a_case_of_a_call_passes_as_it_is_written(console: ConsoleHarness, tmp_path: Path) -> None:
    """Whatever the arguments hold: line breaks, quotes, what cannot be seen."""
    from aggregator.policy.files.cases import read_cases, run_case

    arguments = {"amount": 5, "note": 'a\n"b" # c \u202e \x7f \U0001f600 \U000e0041', "{": [None, {"*": "&a"}]}
    async with console.signed_in("viewer") as client:
        asked = {"agent": "clerk", "tool": "shop.put", "arguments": json.dumps(arguments)}
        verdict = (await data(client, "/console/policies/explain", **asked))["verdict"]
    (tmp_path / "case.yaml").write_text(verdict["case"], encoding="utf-8")
    ((case, place),), problems = read_cases(tmp_path)
    assert not problems
    assert case.arguments == arguments
    rulebook = console.app.gateway.views.rulebook
    assert rulebook is not None
    outcome = run_case(case, place, rulebook, {}, check_arguments=lambda *_: None)
    assert outcome.passed, str(outcome)
    assert (case.expect, case.confirm_by) == ("confirm", "queue")


async def test_limits_say_what_is_left_and_refusals_what_would_allow_them(console: ConsoleHarness) -> None:
    async with console.connect_as(("http", MODERN), "clerk") as host:
        for tool in ("shop.get", "shop.wipe", "shop.wipe"):
            await host.ask("tools/call", {"name": tool, "arguments": {}}).message()
    log = console.app.telemetry.audit
    assert log is not None
    await until(lambda: log.report()["waiting"] == 0)
    async with console.signed_in("viewer") as client:
        page = (await client.get("/console/policies.json?agent=clerk&tool=shop.get")).json()
        html = (await client.get("/console/policies")).text
    (limit,) = page["verdict"]["limits"]
    assert (limit["kind"], limit["most"], limit["left"]) == ("per_minute", 3, 2)
    assert page["verdict"]["result_limit"]["most"] == 65536
    assert page["verdict"]["token_limit"]["most"] == 4000
    (refused,) = page["refusals"]
    assert (refused["agent"], refused["tool"], refused["calls"]) == ("clerk", "shop.wipe", 2)
    assert refused["rule"] == 'deny "shop.wipe"'
    at = line_of(console, "deny:")
    assert refused["allow"] == [f'take "shop.wipe" out of `deny` of agent clerk (policies/{name(console)}:{at})']
    assert page["seen"]["tools"]["names"] == [
        {"name": "shop.get", "verdict": "allow"}, {"name": "shop.put", "verdict": "confirm"}
    ]  # fmt: skip
    assert page["seen"]["tools"]["tokens"] > 0
    assert "shop.wipe" in html


async def test_unknown_agents_and_tools_are_answered_with_those_there_are(console: ConsoleHarness) -> None:
    async with console.signed_in("viewer") as client:
        page = (await client.get("/console/policies.json?agent=clark&tool=shop.gett")).json()
        assert page["verdict"]["sentence"].startswith("clark may not call shop.gett")
        assert page["verdict"]["changes"] == ["Did you mean `clerk`?"]
        assert "shop.get" in page["nearest"]
        assert page["seen"]["known"] is False
        resource = (await client.get("/console/policies.json?agent=clerk&tool=resource:shop.x://y")).json()["verdict"]
        assert resource["sentence"] == "clerk may not read resource:shop.x://y."
        odd = (await client.get("/console/policies.json?agent=clerk&tool=resource:shop.x://a/../b")).json()["verdict"]
        assert odd["sentence"].startswith("clerk may not read resource:shop.x://a/../b in this spelling: ")
        assert odd["expect"] == "invalid"
        prompt = (await client.get("/console/policies.json?agent=clerk&tool=prompt:shop.ask")).json()["verdict"]
        assert prompt["sentence"] == "clerk may not get prompt:shop.ask."
        assert (await client.get("/console/policies?agent=clerk&tool=nothing")).status_code == 400


async def test_a_file_is_shown_with_its_line_and_without_hashes(console: ConsoleHarness) -> None:
    at = line_of(console, "deny:")
    async with console.signed_in("operator") as client:
        shown = (await client.get(f"/console/policies/files/{name(console)}?line={at}")).text
        assert f'<li id="L{at}" class="lit"' in shown
        pages = [shown]
        for path in (
            f"/console/policies/files/{name(console)}.json",
            "/console/policies",
            f"/console/policies/diff?name={name(console)}",
            f"/console/policies/diff.json?name={name(console)}",
        ):
            pages.append((await client.get(path)).text)
            for key in (KEY, OTHER, ESCAPED):
                assert key.rpartition("-")[2] not in pages[-1], path
        assert KEY.partition(":")[0] in shown
        for outside in ("..%2Faggregator.json", "none.yaml", "%2Fetc%2Fpasswd", "..%2F..%2Fetc%2Fpasswd"):
            assert (await client.get(f"/console/policies/files/{outside}")).status_code == 404
    assert not PageReader("/console").read(shown).problems


async def test_an_edit_is_tried_and_not_written(console: ConsoleHarness) -> None:
    """From the text that the editor shows, in which hashes are masked."""
    before = {path.name: path.read_bytes() for path in folder(console).iterdir()}
    async with console.signed_in("operator") as client:
        text = (await client.get(f"/console/policies/diff.json?name={name(console)}")).json()["text"]
        unchanged = await data(client, "/console/policies/diff", name=name(console), text=text)
        assert (unchanged["result"]["problems"], unchanged["result"]["groups"]) == ([], [])
        edit = text.replace("allow: [shop.get]", 'allow: ["shop.*"]\n    deny: [shop.put]')
        result = (await data(client, "/console/policies/diff", name=name(console), text=edit, count="1"))["result"]
        (group,) = result["groups"]
        assert (group["text"], group["owner"], group["edit"]) == ('allow "shop.*"', "agent reader", "added")
        assert group["members"] == [{"agent": "reader", "tools": ["shop.wipe"], "count": 1}]
        assert (group["calls"], result["looked_at"] > 0) == (0, True)
        gone = (await data(client, "/console/policies/diff", name=name(console), text="", remove="1"))["result"]
        assert gone["in_force"] or gone["problems"]
        page = await post(client, "/console/policies/diff", name=name(console), text=edit.replace("roles:", "rols:", 1))
        assert "There is no key `rols` here." in page.text
        assert "line 1" in page.text
        assert not PageReader("/console").read(page.text).problems
        bad = await post(client, "/console/policies/diff", name="../x.yaml", text=edit)
        assert bad.status_code == 400
        large = await client.post(
            "/console/policies/diff", data={"csrf": await token(client), "text": "x" * 10 * 2**20}, headers=OWN_PAGE
        )
        assert large.status_code == 413
    assert {path.name: path.read_bytes() for path in folder(console).iterdir()} == before


async def test_calls_that_an_edit_would_hit_are_counted(console: ConsoleHarness) -> None:
    async with console.connect_as(("http", MODERN), "reader") as host:
        await host.ask("tools/call", {"name": "shop.get", "arguments": {}}).message()
    log = console.app.telemetry.audit
    assert log is not None
    await until(lambda: log.report()["waiting"] == 0)
    async with console.signed_in("operator") as client:
        text = (await client.get(f"/console/policies/diff.json?name={name(console)}")).json()["text"]
        edit = text.replace("allow: [shop.get]", "allow: []")
        result = (await data(client, "/console/policies/diff", name=name(console), text=edit, count="1"))["result"]
    assert (result["groups"][0]["calls"], result["groups"][0]["callers"], result["calls"]) == (1, 1, 1)


async def test_a_viewer_tries_no_edit(console: ConsoleHarness) -> None:
    async with console.signed_in("viewer") as client:
        refused = await post(client, "/console/policies/diff", name=name(console), text="agents: {}\n")
        assert refused.status_code == 403
        assert "Try an edit" not in (await client.get("/console/policies")).text


@pytest.mark.parametrize(
    "text",
    [
        "a: &a [x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\n" + "".join(
            f"{n}: &{n} [{','.join([f'*{last}'] * 9)}]\n" for last, n in zip("bcdefgh", "cdefghi", strict=True)
        ),
        "[" * 100_000,
        "</textarea><script>alert(1)</script>\u202e",
        "agents: {a: !!python/object/apply:os.system [id]}",
    ],
)  # fmt: skip
async def test_hostile_texts_come_back_as_text(console: ConsoleHarness, text: str) -> None:
    async with console.signed_in("operator") as client:
        page = await post(client, "/console/policies/diff", name="new.yaml", text=text)
        assert page.status_code == 200
        assert not PageReader("/console").read(page.text).problems
        assert "\u202e" not in page.text
        assert "would not come into force" in page.text


async def test_a_broken_file_is_mended_in_the_editor(console: ConsoleHarness) -> None:
    """The rules in force stay; the editor has the file as it is now, and compares with what is in force."""
    live, broken = console.app.live, folder(console) / "broken.yaml"
    assert live is not None
    broken.write_text("agents:\n  reader:\n    alow: [shop.put]\n", encoding="utf-8")
    try:
        await until(lambda: live.broken)
        async with console.signed_in("operator") as client:
            page = (await client.get("/console/policies.json?agent=reader&tool=shop.get")).json()
            assert page["verdict"]["verdict"] == "allow"
            (problem,) = page["problems"]
            assert (problem["line"], problem["fix"]) == (3, "Did you mean `allow`?")
            text = (await client.get("/console/policies/diff.json?name=broken.yaml")).json()["text"]
            mended = text.replace("alow", "allow")
            result = (await data(client, "/console/policies/diff", name="broken.yaml", text=mended))["result"]
            assert [group["members"] for group in result["groups"]] == [
                [{"agent": "reader", "tools": ["shop.put"], "count": 1}]
            ]
            shown = (await client.get("/console/policies/files/broken.yaml")).text
            assert "not in force" in shown
    finally:
        broken.unlink()
    await until(lambda: not live.broken)
