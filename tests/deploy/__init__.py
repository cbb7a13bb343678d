"""Tests of an installation: TLS, ends that no host notices, and the files of images, charts and units."""
