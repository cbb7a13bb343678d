"""The modules `html` and `html.parser` for programs (`module_sources`)."""

from html.entities import name2codepoint
from typing import Final

_ENTITIES: Final = {**name2codepoint, "apos": ord("'")}

HTML: Final = (
    f"""
import re as _html_re

_html_named = {_ENTITIES!r}
"""
    + r"""
# References of Windows-1252, as browsers read them.
_html_moved = {128: 8364, 130: 8218, 131: 402, 132: 8222, 133: 8230, 134: 8224, 135: 8225, 136: 710, 137: 8240,
               138: 352, 139: 8249, 140: 338, 142: 381, 145: 8216, 146: 8217, 147: 8220, 148: 8221, 149: 8226,
               150: 8211, 151: 8212, 152: 732, 153: 8482, 154: 353, 155: 8250, 156: 339, 158: 382, 159: 376}

class _Html:
    parser = None

    def escape(self, text, quote=True):
        text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
        return text.replace('"', "&quot;").replace("'", "&#x27;") if quote else text

    def unescape(self, text):
        if "&" not in text:
            return text
        parts, past = [], 0
        for found in _html_re.finditer(r"&(#[0-9]+|#[xX][0-9a-fA-F]+|[a-zA-Z][a-zA-Z0-9]*);?", text):
            word = found.group(1)
            if word[0] == "#":
                number = int(word[2:], 16) if word[1] in "xX" else int(word[1:])
                number = _html_moved.get(number, number)
                sign = chr(number) if 0 < number < 0x110000 and not 0xD800 <= number < 0xE000 else "\ufffd"
            elif word in _html_named and found.group(0)[-1] == ";":
                sign = chr(_html_named[word])
            else:
                # Without a semicolon, the longest beginning that is one of the old names counts.
                sizes = [size for size in range(len(word), 1, -1) if _html_named.get(word[:size], 256) < 256]
                if not sizes or word[:sizes[0]] == "apos":
                    continue
                sign = chr(_html_named[word[:sizes[0]]]) + found.group(0)[sizes[0] + 1:]
            parts.append(text[past:found.start()] + sign)
            past = found.end()
        return "".join(parts) + text[past:]

class _HtmlModule:
    HTMLParser = None

_added_html = _Html()
_added_html.parser = _HtmlModule()
"""
)

# A base of classes of the program (`classes`).
HTML_PARSER: Final = r"""
# The parts of a page, in this order: text, comments, declarations, end tags, start tags, bare signs, incomplete parts.
_x_markup = _html_re.compile(
    r"([^<]+)|<!--(.*?)-->|<([!?])(?!--)([^>]*)>|</([a-zA-Z][^\t\n\r\f />\x00]*)[^>]*>|</[^>a-zA-Z][^>]*>"
    r"|<([a-zA-Z][^\t\n\r\f />\x00]*)((?:[^'\">]|'[^']*'|\"[^\"]*\")*)>|(<)(?=[^a-zA-Z/!?])|(<.*)",
    _html_re.DOTALL)
_x_attribute = _html_re.compile(r"([^\s/>=][^\s/=>]*)(?:\s*=+\s*('[^']*'|\"[^\"]*\"|[^>\s'\"][^>\s]*)?)?")

class _x_HTMLParser:
    def __init__(self, *, convert_charrefs=True):
        self.convert_charrefs = convert_charrefs
        self.reset()

    def reset(self):
        self.rawdata, self.lasttag, self._x_raw, self._x_start = "", "???", None, None

    def feed(self, data):
        self.rawdata += data
        self._x_go(False)

    def close(self):
        self._x_go(True)

    def get_starttag_text(self):
        return self._x_start

    def _x_go(self, ended):
        text, self.rawdata = self.rawdata, ""
        while text:
            if self._x_raw:
                text = self._x_past_raw(text)
            for found in _x_markup.finditer(text):
                if found.group(9) and not ended:
                    self.rawdata = found.group(9)
                else:
                    self._x_found(found)
                if self._x_raw:
                    text = text[found.end():]
                    break
            else:
                text = ""

    def _x_past_raw(self, text):
        end = text.lower().find("</" + self._x_raw)
        if end:
            self.handle_data(text if end < 0 else text[:end])
        if end < 0:
            return ""
        self._x_raw = None
        return text[end:]

    def _x_found(self, found):
        text, comment, sign, said, ended, tag, rest, bare, open_end = found.groups()
        if text or bare or open_end:
            self.handle_data(_added_html.unescape(text or bare or open_end))
        elif comment is not None:
            self.handle_comment(comment)
        elif sign == "?":
            self.handle_pi(said)
        elif sign and said[:7].lower() == "doctype":
            self.handle_decl(said)
        elif sign:
            self.handle_comment(said)
        elif ended:
            self.handle_endtag(ended.lower())
        elif tag:
            self._x_started(tag.lower(), rest, found.group(0))

    def _x_started(self, tag, said, whole):
        self.lasttag, self._x_start = tag, whole
        attrs = []
        for one in _x_attribute.finditer(said):
            value = one.group(2)
            if value is not None:
                value = value[1:-1] if value[:1] in ("'", '"') else value
                value = _added_html.unescape(value)
            elif "=" in one.group(0):
                value = ""
            attrs.append((one.group(1).lower(), value))
        if said.rstrip().endswith("/"):
            self.handle_startendtag(tag, attrs)
        else:
            self.handle_starttag(tag, attrs)
            self._x_raw = tag if tag in ("script", "style") else None

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        self.handle_endtag(tag)

    def handle_starttag(self, tag, attrs):
        pass

    def handle_endtag(self, tag):
        pass

    def handle_data(self, data):
        pass

    def handle_comment(self, data):
        pass

    def handle_decl(self, decl):
        pass

    def handle_pi(self, data):
        pass

_x_mros[_x_HTMLParser], _x_roots[_x_HTMLParser] = [_x_HTMLParser], None
_x_owns[_x_HTMLParser] = {name: "plain" for name in (
    "__init__", "reset", "feed", "close", "get_starttag_text", "_x_go", "_x_past_raw", "_x_found", "_x_started",
    "handle_startendtag", "handle_starttag", "handle_endtag", "handle_data", "handle_comment", "handle_decl",
    "handle_pi")}
"""
