"""Schemas of the shapes that real tools have, small."""

from typing import Any, Final

DRAFT_07: Final = "http://json-schema.org/draft-07/schema#"

SHAPES: Final[dict[str, dict[str, Any]]] = {
    "nothing": {"type": "object"},
    "closed": {"type": "object", "properties": {}, "additionalProperties": False},
    "weather": {
        "type": "object",
        "properties": {
            "city": {"type": "string", "description": "A city"},
            "extensions": {"type": "string", "enum": ["base", "all"]},
        },
        "required": ["city"],
    },
    "pydantic": {
        "type": "object",
        "title": "searchArguments",
        "properties": {
            "query": {"title": "Query", "type": "string", "minLength": 1},
            "limit": {"anyOf": [{"type": "integer", "minimum": 1, "maximum": 100}, {"type": "null"}], "default": None},
            "sort": {"$ref": "#/$defs/Sort", "default": "asc"},
            "filters": {"anyOf": [{"items": {"$ref": "#/$defs/Filter"}, "type": "array"}, {"type": "null"}]},
        },
        "required": ["query"],
        "$defs": {
            "Sort": {"enum": ["asc", "desc"], "type": "string"},
            "Filter": {
                "type": "object",
                "properties": {
                    "field": {"type": "string"},
                    "value": {"anyOf": [{"type": "string"}, {"type": "number"}]},
                },
                "required": ["field", "value"],
            },
        },
    },
    "zod": {
        "$schema": DRAFT_07,
        "type": "object",
        "properties": {
            "paths": {"type": "array", "items": {"type": "string"}, "minItems": 1, "uniqueItems": True},
            "page": {"type": "integer", "exclusiveMinimum": 0, "maximum": 9007199254740991},
            "ratio": {"type": "number", "multipleOf": 0.5},
            "options": {
                "type": "object",
                "properties": {"deep": {"type": "boolean"}},
                "additionalProperties": {"type": "string"},
            },
        },
        "required": ["paths"],
        "additionalProperties": False,
    },
    "edit": {
        "type": "object",
        "properties": {
            "id": {"type": "string", "pattern": "^[a-z0-9][a-z0-9-]{0,15}$"},
            "cells": {"type": "array", "items": {"type": "array", "items": {"type": ["string", "number", "null"]}}},
            "labels": {"type": "object", "propertyNames": {"pattern": "^[a-z]+$"}, "maxProperties": 3},
        },
        "required": ["id"],
    },
    "union": {
        "type": "object",
        "properties": {
            "action": {
                "oneOf": [
                    {
                        "type": "object",
                        "properties": {"kind": {"const": "move"}, "to": {"type": "integer"}},
                        "required": ["kind", "to"],
                    },
                    {
                        "type": "object",
                        "properties": {"kind": {"const": "say"}, "text": {"type": "string"}},
                        "required": ["kind", "text"],
                    },
                ]
            }
        },
        "required": ["action"],
    },
    "tree": {
        "type": "object",
        "properties": {"root": {"$ref": "#/$defs/Node"}},
        "$defs": {
            "Node": {
                "type": "object",
                "properties": {
                    "name": {"type": "string"},
                    "children": {"type": "array", "items": {"$ref": "#/$defs/Node"}},
                },
                "required": ["name"],
                "unevaluatedProperties": False,
            }
        },
    },
    "conditional": {
        "type": "object",
        "properties": {"mode": {"enum": ["file", "url"]}, "path": {"type": "string"}, "url": {"type": "string"}},
        "if": {"properties": {"mode": {"const": "file"}}, "required": ["mode"]},
        "then": {"required": ["path"]},
        "else": {"not": {"required": ["path"]}},
        "dependentRequired": {"url": ["mode"]},
    },
    "old": {
        "$schema": "http://json-schema.org/draft-04/schema#",
        "type": "object",
        "properties": {
            "size": {"type": "integer", "minimum": 0, "exclusiveMinimum": True},
            "pair": {"type": "array", "items": [{"type": "string"}, {"type": "integer"}], "additionalItems": False},
        },
        "dependencies": {"pair": ["size"]},
        "required": ["size"],
    },
}
