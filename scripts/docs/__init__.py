"""Generators of what is written twice: the references in docs/ and the JSON Schemas for editors.

`sh scripts/generate` writes all of it. Each module here knows one file, and a test holds that file to be fresh.
"""
