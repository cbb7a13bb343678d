"""Small modules for programs (`module_sources`) that read texts of other formats: `configparser` and `shlex`."""

from typing import Final

from aggregator.code.sandbox.small_sources import MAPPING_VIEWS

SHLEX: Final = """
class _Shlex:
    def quote(self, text):
        plain = all([sign.isalnum() and sign.isascii() or sign in "@%+=:,./-_" for sign in text])
        return text if text and plain else "'" + text.replace("'", "'\\"'\\"'") + "'"

    def join(self, words):
        return " ".join([self.quote(word) for word in words])

    def split(self, text, comments=False, posix=True):
        words, word, quote, at = [], None, "", 0
        while at < len(text):
            sign = text[at]
            at += 1
            if quote == "'" or quote and sign != "\\\\":
                if sign == quote:
                    quote = ""
                else:
                    word += sign
            elif sign == "\\\\":
                if at == len(text):
                    raise ValueError("No escaped character")
                kept = sign if quote and text[at] not in (quote, sign) else ""
                word = ("" if word is None else word) + kept + text[at]
                at += 1
            elif sign in ("'", '"'):
                quote, word = sign, "" if word is None else word
            elif sign in " \\t\\r\\n":
                words, word = (words if word is None else [*words, word]), None
            elif sign == "#" and comments:
                at = len(text) if text.find("\\n", at) < 0 else text.find("\\n", at)
            else:
                word = sign if word is None else word + sign
        if quote:
            raise ValueError("No closing quotation")
        return words if word is None else [*words, word]

_added_shlex = _Shlex()
"""

# A program cannot raise an exception of a module of its own: all of them are KeyError.
CONFIGPARSER: Final = (
    """
import re as _config_re

_config_unset = ["no fallback"]
_config_states = dict.fromkeys(("1", "yes", "true", "on"), True)
_config_states.update(dict.fromkeys(("0", "no", "false", "off"), False))

class _Section:
    def __init__(self, parser, name):
        self.parser, self.name = parser, name

    def _whole(self):
        return {key: self.parser.get(self.name, key) for key in self.parser.options(self.name)}

    def __getitem__(self, key):
        if not self.parser.has_option(self.name, key):
            raise KeyError(key)
        return self.parser.get(self.name, key)

    def __setitem__(self, key, value):
        self.parser.set(self.name, key, value)

    def __contains__(self, key):
        return self.parser.has_option(self.name, key)

    def __repr__(self):
        return f"<Section: {self.name}>"

"""
    + MAPPING_VIEWS
    + """
    def get(self, key, fallback=None):
        return self.parser.get(self.name, key, fallback=fallback)

    def getint(self, key, fallback=None):
        return self.parser.getint(self.name, key, fallback=fallback)

    def getfloat(self, key, fallback=None):
        return self.parser.getfloat(self.name, key, fallback=fallback)

    def getboolean(self, key, fallback=None):
        return self.parser.getboolean(self.name, key, fallback=fallback)

class _Parser:
    def __init__(self, defaults=None, allow_no_value=False, interpolation=_config_unset, strict=True, **more):
        self._no_value, self._interpolates, self._strict = allow_no_value, interpolation is not None, strict
        self._sections = {"DEFAULT": dict(defaults or {})}
        self.optionxform = lambda key: key.lower()

    def _whole(self):
        return {name: _Section(self, name) for name in self._sections}

    def read_file(self, lines, source=None):
        self.read_string("".join(lines))

    def read_dict(self, values):
        for section, options in values.items():
            for key, value in options.items():
                self._sections.setdefault(section, {})[self.optionxform(key)] = str(value)

    def read_string(self, text, source=None):
        section, key, indent = None, None, 0
        for number, line in enumerate(text.splitlines(), 1):
            bare = line.strip()
            if not bare or bare[0] in "#;":
                continue
            deep = len(line) - len(line.lstrip())
            header = _config_re.match(r"\\[(.+)\\]", bare)
            if key is not None and deep > indent:
                self._sections[section][key] = f"{self._sections[section][key] or ''}\\n{bare}"
            elif header:
                section, key = header.group(1), None
                if section in self._sections and section != "DEFAULT" and self._strict:
                    raise KeyError(f"section {section!r} already exists")
                self._sections.setdefault(section, {})
            elif section is None:
                raise KeyError(f"File contains no section headers. line: {number} {line!r}")
            else:
                found = _config_re.match(r"(.*?)\\s*[=:]\\s*(.*)", bare)
                if found is None and not self._no_value:
                    raise KeyError(f"Source contains parsing errors: [line {number:2d}]: {line!r}")
                key, indent = self.optionxform(found.group(1) if found else bare), deep
                self._sections[section][key] = found.group(2) if found else None

    def sections(self):
        return [name for name in self._sections if name != "DEFAULT"]

    def defaults(self):
        return self._sections["DEFAULT"]

    def _options(self, section):
        if section not in self._sections:
            raise KeyError(f"No section: {section!r}")
        return {**self._sections["DEFAULT"], **self._sections[section]}

    def options(self, section):
        own = self._sections.get(section, {})
        return [*own, *[key for key in self._options(section) if key not in own]]

    def has_section(self, section):
        return section in self._sections and section != "DEFAULT"

    def has_option(self, section, key):
        return section in self._sections and self.optionxform(key) in self._options(section)

    def get(self, section, key, raw=False, vars=None, fallback=_config_unset):
        name = self.optionxform(key)
        options = {} if section not in self._sections and fallback is not _config_unset else self._options(section)
        if name not in options:
            if fallback is not _config_unset:
                return fallback
            raise KeyError(f"No option {key!r} in section: {section!r}")
        value = options[name]
        return value if raw or value is None or not self._interpolates else self._filled(value, options, 0)

    def _filled(self, value, options, depth):
        if "%" not in value or depth > 10:
            return value
        parts, end = [], 0
        for found in _config_re.finditer(r"%(?:%|\\((\\w+)\\)s)", value):
            parts.append(value[end:found.start()])
            name = found.group(1)
            parts.append("%" if name is None else self._filled(str(options[name.lower()]), options, depth + 1))
            end = found.end()
        return "".join([*parts, value[end:]])

    def _as(self, kind, section, key, more):
        value = self.get(section, key, **more)
        return value if "fallback" in more and value is more["fallback"] else kind(value)

    def getint(self, section, key, **more):
        return self._as(int, section, key, more)

    def getfloat(self, section, key, **more):
        return self._as(float, section, key, more)

    def getboolean(self, section, key, **more):
        return self._as(self._state, section, key, more)

    def _state(self, value):
        if value.lower() not in _config_states:
            raise ValueError(f"Not a boolean: {value}")
        return _config_states[value.lower()]

    def items(self, section=None, raw=False):
        if section is None:
            return self._whole().items()
        return [(key, self.get(section, key, raw=raw)) for key in self._options(section)]

    def keys(self):
        return self._sections.keys()

    def values(self):
        return self._whole().values()

    def add_section(self, section):
        self._sections[section] = {}

    def set(self, section, key, value=None):
        self._options(section)
        self._sections[section][self.optionxform(key)] = value

    def remove_option(self, section, key):
        return self._sections[section].pop(self.optionxform(key), None) is not None

    def remove_section(self, section):
        return self._sections.pop(section, None) is not None

    def write(self, file, space_around_delimiters=True):
        sign = " = " if space_around_delimiters else "="
        for name, options in self._sections.items():
            if options or name != "DEFAULT":
                lines = [f"{key}{sign}{value}".replace("\\n", "\\n\\t") + "\\n" for key, value in options.items()]
                file.write(f"[{name}]\\n{''.join(lines)}\\n")

    def __getitem__(self, section):
        if section not in self._sections:
            raise KeyError(section)
        return _Section(self, section)

    def __setitem__(self, section, options):
        self._sections[section] = {}
        self.read_dict({section: options})

    def __contains__(self, section):
        return section in self._sections

    def __iter__(self):
        return iter(self._sections)

    def __len__(self):
        return len(self._sections)

_x_mappings.append(_Section)
_x_mappings.append(_Parser)

class _ConfigParser:
    ConfigParser = _Parser
    RawConfigParser = _Parser
    Error = KeyError
    NoSectionError = KeyError
    NoOptionError = KeyError
    MissingSectionHeaderError = KeyError
    DuplicateSectionError = KeyError
    ParsingError = KeyError

_added_configparser = _ConfigParser()
"""
)
