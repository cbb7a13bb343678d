"""Files of the configuration: where they are, who trusts them, how JSON with comments is read and faults are reported.

Nothing here knows what a field means.

Terms:
  location: the file to use, and why it is this one
  trusted: allowed by the user to be used in its folder without being named
  report: the problems of one file, in the order they were found
  complaint: a validation error as a sentence, with the path of the field

Entry point: `find.find_config` and `jsonfile.read_object`.

Must not import: `aggregator.config.servers`, nor the models of the configuration. Held by tests/test_layers.py.
"""
