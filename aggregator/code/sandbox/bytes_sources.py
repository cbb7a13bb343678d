"""Modules of programs about bytes: `hmac`, and the checksums of `zlib`."""

from typing import Final

HMAC: Final = """
import hashlib as _hmac_hashlib

class _Mac:
    def __init__(self, key, msg, digestmod):
        self.name = digestmod if isinstance(digestmod, str) else digestmod().name
        size = 128 if self.name in ("sha384", "sha512") else 64
        key = (self._hashed(key) if len(key) > size else key)
        key = key + bytes(size - len(key))
        self._outer = bytes.fromhex("".join(["%02x" % (one ^ 0x5C) for one in key]))
        self._parts = [bytes.fromhex("".join(["%02x" % (one ^ 0x36) for one in key])), msg or b""]

    def _hashed(self, given):
        return _hmac_hashlib.new(self.name, given).digest()

    def update(self, msg):
        self._parts.append(msg)

    def digest(self):
        return self._hashed(self._outer + self._hashed(b"".join(self._parts)))

    def hexdigest(self):
        return self.digest().hex()

class _Hmac:
    def new(self, key, msg=None, digestmod=""):
        if not digestmod:
            raise TypeError("Missing required argument 'digestmod'.")
        return _Mac(key, msg, digestmod)

    def digest(self, key, msg, digest):
        return _Mac(key, msg, digest).digest()

    def compare_digest(self, a, b):
        return a == b

_added_hmac = _Hmac()
"""

ZLIB: Final = """
import binascii as _zlib_binascii

class _Zlib:
    def crc32(self, given, value=0):
        return _zlib_binascii.crc32(given, value)

    def adler32(self, given, value=1):
        low, high = value & 0xFFFF, value >> 16
        for one in given:
            low = (low + one) % 65_521
            high = (high + low) % 65_521
        return high << 16 | low

_added_zlib = _Zlib()
"""
