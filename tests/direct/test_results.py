"""Results of every kind: what the host gets and what is on record is the same as in the pipeline."""

import json
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from tests.direct.direct_harness import (
    DIRECT,
    HOST_KINDS,
    PIPELINE,
    TAKEN_OVER,
    child,
    direct_harness,
    result,
    text,
)
from tests.peers.toolbox import Json

pytestmark = pytest.mark.usefixtures("through")


class Case(NamedTuple):
    """Lines that answer a call, and the way it is answered."""

    lines: list[str]
    way: str = DIRECT
    tool: str = "any"
    meta: Json = {}  # noqa: RUF012 - never changed


LINK: Final = {"type": "resource_link", "uri": "file:///a", "name": "a"}
REPORT: Final = (
    '{"jsonrpc":"2.0","method":"notifications/progress","params":'
    '{"progressToken":$TOKEN,"progress":%d,"message":"m","x":[null]}}'
)
NOBODY: Final = ("-1", "true", '"x"', "0")
OTHER: Final = '{"jsonrpc":"2.0","id":%s,"result":{"content":[]}}'
RESULTS: Final = {
    "text": Case([text("知识 \U0001f642 \u2028")]),
    "nothing": Case([result()]),
    "no content": Case([result(content=[])]),
    "content that is none": Case([result(content="words")]),
    "several": Case([result(content=[{"type": "text", "text": "a"}, {"type": "image", "data": "QQ=="}])]),
    "blocks that are none": Case([result(content=[None, 1, "a", [], {"type": ["text"]}, {}])]),
    "vendor members": Case([result(content=[], **{"x-vendor": {"a": [1, None, 2.5]}})]),
    "meta": Case([result(content=[], _meta={"com.example/a": 1, "io.modelcontextprotocol/x": 2, "aggregator/b": 3})]),
    "meta that is none": Case([result(content=[], _meta=[1])]),
    "meta null": Case([result(content=[], _meta=None)]),
    "pages of a UI": Case([result(content=[], _meta={"ui": {"resourceUri": "ui://a"}, "ui/resourceUri": "ui://b"})]),
    "a link": Case([result(content=[LINK])]),
    "a text and a link": Case([result(content=[{"type": "text", "text": "a"}, LINK])]),
    "an embedded resource": Case([result(content=[{"type": "resource", "resource": {"uri": "x://y", "text": "t"}}])]),
    "links that are none": Case([result(content=[{"type": "resource_link", "uri": 7}, {"type": "resource"}])]),
    "a time of its own": Case([result(content=[], structuredContent={"updated_at": "2026-01-01"})]),
    "a time in a block": Case([result(content=[{"type": "text", "text": "", "annotations": {"lastModified": "2"}}])]),
    "structured": Case([result(content=[], structuredContent={"n": 1})]),
    "structured and no object": Case([result(content=[], structuredContent=[1])]),
    "complete": Case([result(content=[], resultType="complete", ttlMs=5, cacheScope="public")]),
    "an error that is false": Case([result(content=[], isError=False)]),
    "an error that is none": Case([result(content=[], isError=1)]),
    "an error": Case([result(content=[{"type": "text", "text": "no"}], isError=True)], TAKEN_OVER),
    "an error with meta of ours": Case([result(isError=True, _meta={"aggregator/error": {"code": 1}})], TAKEN_OVER),
    "a question that nobody may ask": Case([result(resultType="input_required")], TAKEN_OVER),
    "another kind of result": Case([result(resultType="task")], TAKEN_OVER),
    "a kind that is no text": Case([result(resultType=[1])], TAKEN_OVER),
    "a JSON-RPC error": Case(['{"jsonrpc":"2.0","id":$ID,"error":{"code":-1,"message":"m","data":[1]}}'], TAKEN_OVER),
    "an error without a form": Case(['{"jsonrpc":"2.0","id":$ID,"error":{"code":"x"},"result":7}'], TAKEN_OVER),
    "an answer without either": Case(['{"jsonrpc":"2.0","id":$ID}'], TAKEN_OVER),
    "a result that is no object": Case(['{"jsonrpc":"2.0","id":$ID,"result":[1]}'], TAKEN_OVER),
    "an id as text": Case([text("a").replace("$ID", '"$ID"')]),
    "an id as a fraction, then the answer": Case([text("wrong").replace("$ID", "$ID.0"), text("right")]),
    "answers to nobody, then the answer": Case([*(OTHER % bad for bad in NOBODY), text("a")]),
    "a result for no id": Case([OTHER % "null"], TAKEN_OVER),
    "an error for no id": Case(['{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"m"}}'], TAKEN_OVER),
    "twice": Case([text("first"), text("second")]),
    "a result, then an error": Case([text("first"), '{"jsonrpc":"2.0","id":$ID,"error":{"code":1,"message":"m"}}']),
    "an error, then a result": Case(
        ['{"jsonrpc":"2.0","id":$ID,"error":{"code":1,"message":"m"}}', text("second")], TAKEN_OVER
    ),
    "noise, then the answer": Case(["listening ...", "", '{"level":"info","id":1}', text("a")]),
    "a batch": Case([f"[{text('a')}]"]),
    "not finite": Case(['{"jsonrpc":"2.0","id":$ID,"result":{"content":[],"structuredContent":{"a":NaN,"b":1e999}}}']),
    "a large number": Case(['{"jsonrpc":"2.0","id":$ID,"result":{"content":[],"n":' + "7" * 60 + "}}"]),
    "half a character": Case(['{"jsonrpc":"2.0","id":$ID,"result":{"content":[{"type":"text","text":"\\ud800"}]}}']),
    "a member twice": Case(
        ['{"jsonrpc":"2.0","id":$ID,"result":{"content":[],"content":[{"type":"text","text":"2"}]}}']
    ),
    "almost small": Case([text("x" * 65_000)]),
    "large": Case([text("x" * 70_000)], TAKEN_OVER),
    "many blocks": Case([result(content=[{"type": "text", "text": "a"}] * 501)], TAKEN_OVER),
    "deep": Case([result(content=[], deep=json.loads("[" * 300 + "]" * 300))]),
    "too deep": Case([f'{{"jsonrpc":"2.0","id":$ID,"result":{{"deep":{"[" * 30_000}{"]" * 30_000}}}}}'], TAKEN_OVER),
    "fits its schema": Case([result(content=[], structuredContent={"n": 1})], tool="typed"),
    "does not fit its schema": Case([result(content=[], structuredContent={"n": "x"})], TAKEN_OVER, "typed"),
    "nothing where a schema is": Case([result(content=[])], TAKEN_OVER, "typed"),
    "an error where a schema is": Case([result(content=[], isError=True)], TAKEN_OVER, "typed"),
    "progress": Case([REPORT % 1, REPORT % 2, text("a")], TAKEN_OVER, meta={"progressToken": "t"}),
    "progress that only we asked for": Case([REPORT % 1, REPORT % 2, text("a")]),
    "progress that does not rise": Case([REPORT % 2, REPORT % 1, text("a")], TAKEN_OVER, meta={"progressToken": 5}),
    "progress of another": Case([REPORT.replace("$TOKEN", "-1") % 1, text("a")], meta={"progressToken": 5}),
    "progress that was not asked for": Case([REPORT.replace("$TOKEN", "1") % 1, text("a")]),
    "progress, then an error": Case([REPORT % 1, result(isError=True)], TAKEN_OVER, meta={"progressToken": 5}),
    "a token, and no progress": Case([text("a")], meta={"progressToken": 5}),
    "a log message": Case(
        ['{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"error","data":"d"}}', text("a")]
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", HOST_KINDS, ids="-".join)
async def test_every_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: tuple[str, str]) -> None:
    """A3, C8: the bytes of an answer and the record of its call do not depend on how it is answered."""
    servers = {"old": child("legacy"), "new": child("modern"), "strict": child("modern", output_validation="enforce")}
    async with direct_harness(tmp_path, monkeypatch, servers) as it, it.host(*kind) as host:
        for server in servers:
            for name, case in RESULTS.items():
                plain = {"n": 1, "writes": [result(content=[], structuredContent={"n": 1})]}
                params: Json = {"name": f"{server}.{case.tool}", "arguments": {"writes": case.lines}}
                params |= {"_meta": case.meta} if case.meta else {}
                way, reply = await it.compare(host, params, {**params, "arguments": plain})
                expected = case.way
                if name == "a log message" and kind[1] != "2026-07-28":
                    expected = TAKEN_OVER
                if name == "large" and kind[0] == "http":
                    # Its request is too long to be read twice, here and by a task.
                    expected = PIPELINE
                assert way == expected, (server, name, reply)
        it.nothing_is_left()
    assert PIPELINE in it.ways
