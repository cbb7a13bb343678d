"""The files of the policy: read, checked and merged into documents, with file and line for every problem.

Law: all or nothing. One error in any file, and there are no documents; the rules in force stay. The order of the files
changes nothing.

Terms:
  documents: the content of all files, merged; see `policy/rules.py`
  body: the rules and settings of one agent, one role or the defaults
  place: file and line of a value; see `yamltree.py`
  case: an expectation beside the policies, for `aggregator policy test`; see `cases.py`
  lint: warnings about rules that are valid and surely not meant; see `lint.py`

Entry point: `folder.read_folder`, then `checking.check`.
Must not import: `policy.live`, which is built on it, and nothing above `policy`; tests/test_layers.py holds that.
"""
