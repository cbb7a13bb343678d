"""Secrets taken out of texts and JSON values before they are logged, stored, shown or passed on.

Terms:
  known secret: a value of the configuration or the environment, found in every form that programs write it in.
  form: one way of writing a secret: as it is, escaped, percent-encoded, in base64 or hexadecimal.
  anchor: a short piece of a form that is looked for first.
  secret name: the name of a field, header or variable that says that its value is a secret.
  key format: the form by which the keys of an issuer are recognised without being known.
  span: where in a text something has to be hidden, as two positions.

Entry point: `redactor.Redactor`; `arguments.without_arguments` for what others say of a call's arguments.
Must not import: anything of the package but `domain` (tests/test_layers.py). Nothing here awaits or reads a file.
"""
