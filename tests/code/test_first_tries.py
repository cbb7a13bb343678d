"""Programs as models write them at first: forms of Python and of MCP's SDKs that the interpreter lacks."""

import json
from typing import Any, Final

import pytest

from aggregator.code.sandbox.bounds import CallFailed, ProgramLimits
from aggregator.code.sandbox.forms import formed
from aggregator.code.sandbox.modules import with_modules
from aggregator.code.sandbox.prelude import FunctionCall, masked
from aggregator.code.sandbox.rewriting import rewritten
from aggregator.code.sandbox.sandbox import Sandbox

LIMITS: Final = ProgramLimits(calls=20, seconds=5.0, memory=64 * 2**20)
FEED: Final = (
    '<?xml version="1.0"?><!-- all --><shop xmlns:m="http://m" open="a &lt; b"><item sku="S1" m:k="9">'
    "<price>2.5</price></item><item sku='S2'><price>7</price>now</item><![CDATA[<end>]]></shop>"
)
RESULTS: Final[dict[str, Any]] = {
    "orders": {"orders": [{"id": 1, "total": 4}, {"id": 2, "total": 3}], "pages": 1},
    "files": [{"name": "b"}, {"name": "a"}],
    "note": "call c1",
    "feed": FEED,
    "page": {"title": "T", "content": "text of the page", "isError": "maybe"},
}


async def answer(call: FunctionCall) -> str:
    name = call.arguments["name"]
    if name == "bad":
        raise CallFailed("it is locked")
    return json.dumps(RESULTS.get(name, {"id": name}))


async def run(sandbox: Sandbox, code: str) -> str:
    return (await sandbox.run(code, answer, LIMITS, "agent")).text


@pytest.mark.parametrize(
    ("code", "text"),
    [
        ("import json\nsorted(f['name'] for f in json.loads(call_tool('files')))", '["a", "b"]'),
        ("import json\nfrom json import loads as read\n[read('[1]'), json.loads({'a': 1})]", '[[1], {"a": 1}]'),
        ("import json\njson.dumps({'a': {1, 2}, 'b': (1,)}, default=list)", '{"a": [1, 2], "b": [1]}'),
        ("import json, io\njson.load(io.StringIO('[2]'))", "[2]"),
        ("import operator\nlist(map(operator.methodcaller('upper'), ['a', 'b']))", '["A", "B"]'),
        ("from operator import methodcaller\nsorted(['b,a', 'a,z'], key=methodcaller('split', ',', 1))",
         '["a,z", "b,a"]'),
        ("from operator import methodcaller\nclass A:\n    def sum(self, x, y=1):\n        return x + y\n"
         "methodcaller('sum', 2, y=3)(A())", "5"),
        ("from xml.dom import minidom\nd = minidom.parseString('<a k=\"1\"><b>x</b>t<b/></a>')\nr = d.documentElement\n"
         "[r.tagName, r.getAttribute('k'), r.getAttribute('no'), r.childNodes[1].data, len(r.childNodes),\n"
         " [b.firstChild.nodeValue if b.hasChildNodes() else None for b in d.getElementsByTagName('b')]]",
         '["a", "1", "", "t", 3, ["x", null]]'),
        ("import io\nimport xml.dom.minidom as dom\nd = dom.parse(io.StringIO(call_tool('feed')))\n"
         "[[i.getAttribute('sku'), i.hasAttribute('m:k'), i.getElementsByTagName('price')[0].firstChild.data,\n"
         "  [a.value for a in i.attributes.values()]] for i in d.getElementsByTagName('item')]",
         '[["S1", true, "2.5", ["S1", "9"]], ["S2", false, "7", ["S2"]]]'),
        ("import json\nr = call_tool('orders')\njson.loads(r['content'][0]['text'])['pages']", "1"),
        ("r = call_tool('orders')\nr.content[0].text",
         '{"orders": [{"id": 1, "total": 4}, {"id": 2, "total": 3}], "pages": 1}'),
        ("r = call_tool('orders')\nr['structuredContent']['orders'][0]['id']", "1"),
        ("r = call_tool('orders')\n[r.isError, r.structuredContent['pages']]", "[false, 1]"),
        ("rs = [call_tool('note'), call_tool('files')]\n[t['text'] for t in rs[0]['content']]", '["call c1"]'),
        ("rs = {'a': call_tool('orders')}\nlen(rs['a']['content'])", "1"),
        ("call_tool('note').text", "call c1"),
        ("import json\njson.loads(call_tool('orders').content[0].text)['pages']", "1"),
        ("call_tool('orders')['content'][0]['text'][:11], (call_tool('files'))['isError']",
         '["{\\"orders\\": ", false]'),
        ("import asyncio\nasync def ask(n):\n    return await call_tool(n)\n"
         "[(await call_tool('note')).text, (await ask('note')).content[0].text]", '["call c1", "call c1"]'),
        ("def ask(n):\n    return call_tool(n)\nf\"{ask('note').text}: {ask('orders').structuredContent['pages']}\"",
         "call c1: 1"),
        ("r = call_tool('note')\nprint(f\"{r.content[0].text!r} {r['content'][0]['text']}\")", "'call c1' call c1"),
        ("r = call_tool('note')\n'\\n'.join(c.text for c in r.content if c.type == 'text')", "call c1"),
        ("r = call_tool('orders')\n[r.is_error, r.structured_content['pages'], r.get('isError'), r.get('result', 2)]",
         "[false, 1, false, 2]"),
        ("r = call_tool('page')\n[r.content[0].text[:13], r['content'], r.get('content')]",
         '["{\\"title\\": \\"T\\"", "text of the page", "text of the page"]'),
        ("class Note:\n    def __init__(self, text):\n        self.text = text\n        self.content = [self]\n"
         "n = Note('mine')\n[n.text, n.content[0].text, Note('new').text, call_tool('note').text]",
         '["mine", "mine", "new", "call c1"]'),
        ("p = call_tool('page')\n[p['content'], p['isError']]", '["text of the page", "maybe"]'),
        ("p = {}\np['content'] = 3\np['content'] += 1\np['content']", "4"),
        ("import asyncio\nr = await asyncio.gather(call_tool('x'), call_tool('bad'), return_exceptions=True)\n"
         "[r[0]['id'], isinstance(r[1], Exception), str(r[1])]", '["x", true, "it is locked"]'),
        ("import asyncio\nasync def one(i):\n    return (await call_tool(i))['id']\nasync def main():\n"
         "    tasks = [asyncio.create_task(one(i)) for i in 'ab']\n"
         "    return [await t for t in asyncio.as_completed(tasks)]\n"
         "asyncio.run(main())", '["a", "b"]'),
        ("import asyncio\nlimit = asyncio.Semaphore(2)\nasync def one(i):\n    async with limit:\n"
         "        return await asyncio.wait_for(call_tool(i), timeout=5)\n"
         "len(await asyncio.gather(*[one(i) for i in 'abc']))", "3"),
        ("import asyncio\n[r['id'] for r in asyncio.run(asyncio.gather(*map(call_tool, 'ab')))]", '["a", "b"]'),
        ("from operator import itemgetter\nrows = call_tool('orders')['orders']\nrows.sort(key=itemgetter('total'))\n"
         "[r['id'] for r in rows]", "[2, 1]"),
        ("import operator\nfrom functools import reduce\n"
         "[reduce(operator.mul, [2, 3]), operator.itemgetter(0, 1)('ab')]",
         '[6, ["a", "b"]]'),
        ("from concurrent.futures import ThreadPoolExecutor\nwith ThreadPoolExecutor(max_workers=3) as pool:\n"
         "    found = list(pool.map(lambda i: call_tool(i)['id'], ['a', 'b']))\nfound", '["a", "b"]'),
        ("import concurrent.futures as cf\nwith cf.ThreadPoolExecutor() as pool:\n"
         "    jobs = {pool.submit(call_tool, i): i for i in ('a', 'bad')}\n    said = []\n"
         "    for job in cf.as_completed(jobs):\n"
         "        try:\n            said.append(job.result()['id'])\n        except Exception as e:\n"
         "            said.append(jobs[job] + ': ' + str(e))\nsaid", '["a", "bad: it is locked"]'),
        ("import xml.etree.ElementTree as ET\nroot = ET.fromstring(call_tool('feed'))\n"
         "[root.tag, root.get('open'), [float(i.find('price').text) for i in root.findall('item')], root[1][0].tail,"
         " ''.join(root.itertext())]", '["shop", "a < b", [2.5, 7.0], "now", "2.57now<end>"]'),
        ("from xml.etree import ElementTree\nr = ElementTree.fromstring(call_tool('feed'))\n"
         "[r.find(\"item[@sku='S2']/price\").text, r.findtext('.//price'), r.find('none'),"
         " len(r.findall('item[price]')), r[0].attrib, [e.tag for e in r.iter('price')]]",
         '["7", "2.5", null, 2, {"sku": "S1", "{http://m}k": "9"}, ["price", "price"]]'),
        ("import xml.etree.ElementTree as ET\ntry:\n    ET.fromstring('<a><b></a>')\n"
         "except ET.ParseError as e:\n    x = str(e)\nx",
         "mismatched tag: </a>"),
        ("sorted(map(lambda i: call_tool(i)['id'], ['b', 'a'])), next(map(int, '7')), list(filter(None, [0, 1]))",
         '[["a", "b"], 7, [1]]'),
        ("d = {'a': 1, 'b': 3}\n[max(d, key=d.get), sorted(['B', 'a'], key=str.lower), list(map(str.strip, [' a ']))]",
         '["b", ["a", "B"], ["a"]]'),
        ("d = {'a': 1, 'b': [1, 2]}\ndel d['a']\nif d: del d['b'][0]; x = 1\nd", '{"b": [2]}'),
        ("from pprint import pprint\npprint({'a': 'é'})", "{'a': 'é'}"),
    ],
)  # fmt: skip
async def test_what_models_write_at_first_works(sandbox: Sandbox, code: str, text: str) -> None:
    assert (await run(sandbox, code)).strip() == text


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("x = {'a': 1}\nx['content']", "KeyError: content"),
        ("p = {'a': 1}\np['structuredContent']['x']", "KeyError: structuredContent"),
        ("import requests", "There is no network: call a tool."),
        ("import pandas as pd", "Use lists and dicts"),
        ("from xml.sax import parseString", "Of XML there are xml.etree.ElementTree"),
        ("from bs4 import BeautifulSoup", "read HTML with re"),
        ("import threading", "asyncio.gather, or concurrent.futures"),
        ("import subprocess", "no files, no processes"),
        ("import yaml", "split, partition"),
        ("import zipfile", "Modules: abc, ast, asyncio"),
        ("from operator import matmul\nmatmul", "Write a lambda."),
        ("from functools import singledispatch\n@singledispatch\ndef f(x): pass", "Choose by isinstance"),
        ("from contextlib import redirect_stderr\nredirect_stderr", "Of contextlib there are"),
        ("import concurrent.futures\nconcurrent.futures.wait([])", "the executors and as_completed"),
        ("import xml.etree.ElementTree as ET\nET.fromstring('<a/>').remove(1)", "there are tag, text, attrib"),
        ("import xml.dom.minidom as dom\ndom.parseString('<a/>').toxml()", "getElementsByTagName"),
        ("import xml.etree.ElementTree as ET\nET.fromstring('<a/>b')", "text outside of the document element"),
        ("import xml.etree.ElementTree as ET\nET.fromstring('<a/><b/>')", "junk after document element"),
        ("import xml.etree.ElementTree as ET\nET.fromstring('<a b=c/>')", "not well-formed XML, at character 0"),
        ("import xml.etree.ElementTree as ET\nET.fromstring('<a/>').find('x:b')", "prefix 'x' not found"),
        ("sorted(['a'], key=lambda i: call_tool(i)['id'])", "Call the tools in a loop first"),
    ],
)  # fmt: skip
async def test_what_does_not_work_has_an_alternative(sandbox: Sandbox, code: str, said: str) -> None:
    text = await run(sandbox, code)
    assert said in text
    assert text.startswith("Traceback")


@pytest.mark.parametrize(
    "code",
    [
        "x = 'key=d.get'  # r['content'] and key=d.get)",
        'x = """\ndel d["a"]\nmap(str.strip, x)\nasync with s:\n"""',
        "async with lock: pass",
        "monkey=d.get; key = d.got; keys=d.get()",
        "del x; del d[1:2]; del a, b; model d['a']",
    ],
)
def test_nothing_else_is_written_anew(code: str) -> None:
    assert rewritten(code, masked(code)).code == code


@pytest.mark.parametrize(
    "code",
    [
        "x = 'r[\"content\"]'  # r['content']",
        "r['contents']; r.contents; r.isErrors; r.isError(); r.text()",
        "r['content'] = 1; r['content'] |= 2; r.isError = True; r.text += 'a'",
        "(a or b)['content']; (a or b).text; super().text",
    ],
)
def test_only_what_may_be_a_result_is_asked_for_its_parts(code: str) -> None:
    assert formed(code, masked(code)).code == code


def test_lines_keep_their_numbers() -> None:
    imports = "import xml.etree.ElementTree as ET\nfrom concurrent.futures import (\n  as_completed,\n)\n"
    code = f"{imports}r['content'][\n0]\ndel d['a']"
    edited = rewritten(code, masked(code)).code
    assert edited.count("\n") == code.count("\n")
    assert with_modules(edited, masked(edited))[0].count("\n") == code.count("\n")
