"""Secrets from the keyring, from programs and from files, as they are resolved when a connection is made."""
