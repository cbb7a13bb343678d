"""The meta tool `run_code`, which is listed where `expose: code` says so: a program that calls tools."""

from typing import Final

from aggregator.code.programs import RUN_CODE
from aggregator.gateway.meta.tool import MetaTool, meta_record

TOOL: Final = MetaTool(
    meta_record(
        RUN_CODE,
        "Run a Python program that calls tools: many calls in one, and only what you print or end with comes back. "
        "In it: call_tool(name, {arguments}); search_tools(query), a list of dicts with name, description, parameters; "
        "describe_tools([names]). A result is a dict or list if it is JSON, else text; a failed call raises "
        "RuntimeError. With asyncio: await each of them. Standard modules such as json, re, math, datetime; no "
        "files, no network.",
        {"code": {"type": "string"}},
        ("code",),
        reads=False,
    ),
    None,
)
