"""Removes secrets from texts and JSON values before they are logged, stored, shown or forwarded.

Terms:
  known secret: a value of the configuration or the environment, found in every form that programs write it in.
  form: one way of writing a secret: plain, escaped, percent-encoded, in base64 or hexadecimal.
  anchor: a short piece of a form that the search begins with.
  secret name: the name of a field, header or variable that says that its value is a secret.
  key format: a pattern that recognises the keys of an issuer without knowing them.
  span: a part of a text to hide, as two positions.

Entry point: `redactor.Redactor`; `arguments.without_arguments` for messages that may repeat a call's arguments.
Must not import: anything of the package but `domain` (tests/test_layers.py). Nothing here awaits or reads a file.
"""
