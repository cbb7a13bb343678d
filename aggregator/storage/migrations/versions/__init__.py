"""One file per change of the schema; none is ever edited after a release."""
