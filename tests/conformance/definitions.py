"""The tools, resources, template and prompts that the suite looks for by name, as plain JSON."""

import base64
import io
import wave
import zlib
from hashlib import sha256
from typing import Final

from tests.peers.toolbox import Json


def _chunk(kind: bytes, data: bytes) -> bytes:
    return len(data).to_bytes(4, "big") + kind + data + zlib.crc32(kind + data).to_bytes(4, "big")


def _png() -> bytes:
    """One red pixel."""
    header = (1).to_bytes(4, "big") * 2 + bytes([8, 2, 0, 0, 0])
    pixels = zlib.compress(b"\x00\xff\x00\x00")
    return b"\x89PNG\r\n\x1a\n" + _chunk(b"IHDR", header) + _chunk(b"IDAT", pixels) + _chunk(b"IEND", b"")


def _wav() -> bytes:
    """A hundredth of a second of silence."""
    file = io.BytesIO()
    with wave.open(file, "wb") as sound:
        sound.setparams((1, 2, 8_000, 0, "NONE", "NONE"))
        sound.writeframes(bytes(160))
    return file.getvalue()


PNG: Final = base64.b64encode(_png()).decode()
WAV: Final = base64.b64encode(_wav()).decode()
IMAGE: Final[Json] = {"type": "image", "data": PNG, "mimeType": "image/png"}
AUDIO: Final[Json] = {"type": "audio", "data": WAV, "mimeType": "audio/wav"}

TEXT_URI: Final = "test://static-text"
BINARY_URI: Final = "test://static-binary"
WATCHED_URI: Final = "test://watched-resource"
TEMPLATE_URI: Final = "test://template/{id}/data"


def embedded(uri: str, kind: str, content: str) -> Json:
    return {"type": "resource", "resource": {"uri": uri, "mimeType": kind, "text": content}}


def _tool(name: str, description: str, properties: Json | None = None) -> Json:
    schema: Json = {"type": "object", "properties": properties or {}}
    if properties:
        schema["required"] = list(properties)
    return {"name": name, "description": description, "inputSchema": schema}


_STRING: Final[Json] = {"type": "string"}
_2020_12: Final[Json] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {"$anchor": "addressDef", "type": "object", "properties": {"street": _STRING, "city": _STRING}}
    },
    "properties": {
        "name": _STRING,
        "address": {"$ref": "#/$defs/address"},
        "contactMethod": {"type": "string", "enum": ["phone", "email"]},
        "phone": _STRING,
        "email": _STRING,
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}

# The first one is called without arguments by `http-header-validation`.
TOOLS: Final[list[Json]] = [
    _tool("test_simple_text", "Returns text."),
    _tool("test_image_content", "Returns an image."),
    _tool("test_audio_content", "Returns a sound."),
    _tool("test_embedded_resource", "Returns a resource."),
    _tool("test_multiple_content_types", "Returns text, an image and a resource."),
    _tool("test_tool_with_logging", "Logs three times while it runs."),
    _tool("test_logging_tool", "Logs once."),
    _tool("test_tool_with_progress", "Reports progress three times."),
    _tool("test_error_handling", "Fails."),
    _tool("test_reconnection", "Ends the event stream before it answers."),
    _tool("test_sampling", "Asks the host's model.", {"prompt": _STRING}),
    _tool("test_elicitation", "Asks the person.", {"message": _STRING}),
    _tool("test_elicitation_sep1034_defaults", "Asks the person with a default for each kind of field."),
    _tool("test_elicitation_sep1330_enums", "Asks the person to choose, in five ways."),
    _tool("test_missing_capability", "Needs a host that samples."),
    _tool("test_streaming_elicitation", "Asks the person on the response stream."),
    _tool("test_trigger_tool_change", "Adds a tool, or takes it away."),
    _tool("test_trigger_prompt_change", "Adds a prompt, or takes it away."),
    {"name": "json_schema_2020_12_tool", "description": "Has a schema of many keywords.", "inputSchema": _2020_12},
    _tool("test_x_mcp_header", "Repeats an argument in a header.", {"region": {**_STRING, "x-mcp-header": "Region"}}),
    _tool("test_input_required_result_elicitation", "Asks for a name."),
    _tool("test_input_required_result_sampling", "Asks the host's model for a capital."),
    _tool("test_input_required_result_list_roots", "Asks for the host's roots."),
    _tool("test_input_required_result_request_state", "Asks, and wants its state back."),
    _tool("test_input_required_result_multiple_inputs", "Asks for three things at once."),
    _tool("test_input_required_result_multi_round", "Asks twice, one after the other."),
    _tool("test_input_required_result_tampered_state", "Asks, and refuses a state that is not its own."),
    _tool("test_input_required_result_capabilities", "Asks only for what the host can do."),
]
EXTRA_TOOL: Final[Json] = _tool("test_extra_tool", "Comes and goes.")

SKILLS_EXTENSION: Final = "io.modelcontextprotocol/skills"
DIRECTORY: Final = "inode/directory"
_REFUNDS: Final = "skill://acme/billing/refunds"
_REFUNDS_TEXT: Final = """---
name: refunds
description: Process customer refund requests per company policy
license: Apache-2.0
metadata:
  version: "2.1"
---

# Refunds

Answer with the text in `examples/email.md`.
"""
_DAILY_TEXT: Final = "---\nname: daily\ndescription: Assemble the report of the day\n---\n\nAsk for it.\n"
# What is read of the skills, by URI.
SKILL_FILES: Final = {
    f"{_REFUNDS}/SKILL.md": _REFUNDS_TEXT,
    f"{_REFUNDS}/examples/email.md": "Dear customer, your money is on its way. \u00e9\n",
    "skill://reports/daily/SKILL.md": _DAILY_TEXT,
}


def _file(uri: str) -> Json:
    raw = SKILL_FILES[uri].encode()
    return {"uri": uri, "digest": f"sha256:{sha256(raw).hexdigest()}", "size": len(raw)}


SKILLS: Final[list[Json]] = [
    {
        "uri": f"{_REFUNDS}/SKILL.md",
        "frontmatter": {
            "name": "refunds",
            "description": "Process customer refund requests per company policy",
            "license": "Apache-2.0",
            "metadata": {"version": "2.1"},
        },
        "resources": [_file(f"{_REFUNDS}/SKILL.md"), _file(f"{_REFUNDS}/examples/email.md")],
    },
    {
        "uri": "skill://reports/daily/SKILL.md",
        "frontmatter": {"name": "daily", "description": "Assemble the report of the day"},
        "resources": "dynamic",
    },
]
DIRECTORIES: Final = {
    _REFUNDS: [
        {"uri": f"{_REFUNDS}/SKILL.md", "name": "SKILL.md", "mimeType": "text/markdown"},
        {"uri": f"{_REFUNDS}/examples", "name": "examples", "mimeType": DIRECTORY},
    ],
    f"{_REFUNDS}/examples": [
        {"uri": f"{_REFUNDS}/examples/email.md", "name": "email.md", "mimeType": "text/markdown"},
    ],
}

RESOURCES: Final[list[Json]] = [
    {"uri": TEXT_URI, "name": "static-text", "description": "Some text.", "mimeType": "text/plain"},
    {"uri": BINARY_URI, "name": "static-binary", "description": "A picture.", "mimeType": "image/png"},
    {"uri": WATCHED_URI, "name": "watched-resource", "description": "May change.", "mimeType": "text/plain"},
    *(
        {
            "uri": skill["uri"],
            "name": skill["frontmatter"]["name"],
            "description": skill["frontmatter"]["description"],
            "mimeType": "text/markdown",
        }
        for skill in SKILLS
    ),
]
TEMPLATES: Final[list[Json]] = [
    {
        "uriTemplate": TEMPLATE_URI,
        "name": "template",
        "description": "Data by id.",
        "mimeType": "application/json",
    }
]


def _prompt(name: str, description: str, *arguments: str) -> Json:
    named = [{"name": argument, "description": f"The {argument}.", "required": True} for argument in arguments]
    return {"name": name, "description": description, **({"arguments": named} if named else {})}


PROMPTS: Final[list[Json]] = [
    _prompt("test_simple_prompt", "A prompt without arguments."),
    _prompt("test_prompt_with_arguments", "A prompt with two arguments.", "arg1", "arg2"),
    _prompt("test_prompt_with_embedded_resource", "A prompt that embeds a resource.", "resourceUri"),
    _prompt("test_prompt_with_image", "A prompt with a picture."),
    _prompt("test_input_required_result_prompt", "A prompt that asks for its context."),
]
EXTRA_PROMPT: Final[Json] = _prompt("test_extra_prompt", "Comes and goes.")
