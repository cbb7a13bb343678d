"""The modules `xml.etree.ElementTree` and `xml.dom.minidom` for programs, as far as they read XML.

Law: as in `module_sources`.
"""

from typing import Final

XML: Final = """
import re as _re

_XML_PIECE = _re.compile(
    r"<!--.*?-->|<\\?.*?\\?>|<!\\[CDATA\\[(.*?)\\]\\]>|<!DOCTYPE[^>\\[]*(?:\\[.*?\\])?\\s*>"
    r"|<(/?)([^\\s<>/=]+)((?:\\s+[^\\s<>/=]+\\s*=\\s*(?:\\x22[^\\x22]*\\x22|'[^']*'))*)\\s*(/?)>|([^<]+)",
    _re.DOTALL,
)
_XML_ATTRIBUTE = _re.compile(r"([^\\s<>/=]+)\\s*=\\s*(?:\\x22([^\\x22]*)\\x22|'([^']*)')")
_XML_ENTITY = _re.compile(r"&(#x[0-9a-fA-F]+|#[0-9]+|[a-z]+);")
_XML_STEP = _re.compile(r"(//?|^)((?:\\{[^}]*\\})?[^/\\[\\]{}]*)((?:\\[[^\\]]*\\])*)")
_XML_TEST = _re.compile(r"\\[\\s*(@?)([^\\]=\\s]+)\\s*(?:=\\s*(?:\\x22([^\\x22]*)\\x22|'([^']*)'))?\\s*\\]")
_XML_NAMED = {"lt": "<", "gt": ">", "amp": "&", "quot": '"', "apos": "'"}

def _xml_text(text):
    if "&" not in text:
        return text
    parts = []
    past = 0
    for found in _XML_ENTITY.finditer(text):
        name = found.group(1)
        if name.startswith("#x"):
            char = chr(int(name[2:], 16))
        elif name.startswith("#"):
            char = chr(int(name[1:]))
        else:
            char = _XML_NAMED.get(name, found.group(0))
        parts += [text[past:found.start()], char]
        past = found.end()
    return "".join(parts) + text[past:]

class _Element:
    def __init__(self, tag, attrib=None, **more):
        self.tag = tag
        self.attrib = {**(attrib or {}), **more}
        self.text = None
        self.tail = None
        self._children = []

    def __iter__(self):
        return iter(self._children)

    def __getitem__(self, at):
        return self._children[at]

    def __repr__(self):
        return f"<Element {self.tag!r}>"

    def get(self, key, default=None):
        return self.attrib.get(key, default)

    def keys(self):
        return self.attrib.keys()

    def items(self):
        return self.attrib.items()

    def append(self, child):
        self._children.append(child)

    def iter(self, tag=None):
        found = []
        left = [self]
        while left:
            one = left.pop()
            if tag is None or tag == "*" or one.tag == tag:
                found.append(one)
            left += one._children[::-1]
        return found

    def itertext(self):
        parts = [self.text] if self.text else []
        for child in self._children:
            parts += child.itertext()
            if child.tail:
                parts.append(child.tail)
        return parts

    def findall(self, path, namespaces=None):
        if path.startswith("/"):
            raise ValueError("cannot use absolute path on element")
        found = [self]
        for step in _XML_STEP.finditer(path):
            tag = step.group(2)
            if tag in ("", "."):
                continue
            prefix, colon, name = tag.partition(":")
            if colon and not tag.startswith("{"):
                if prefix not in (namespaces or {}):
                    raise ValueError(f"prefix {prefix!r} not found in prefix map")
                tag = "{" + namespaces[prefix] + "}" + name
            among = []
            for one in found:
                inner = one.iter()[1:] if step.group(1) == "//" else one._children
                inner = [child for child in inner if tag == "*" or child.tag == tag]
                for test in _XML_TEST.finditer(step.group(3)):
                    inner = self._tested(inner, test)
                among += inner
            found = among
        return found

    def _tested(self, among, test):
        attribute, name = test.group(1), test.group(2)
        value = test.group(3) if test.group(3) is not None else test.group(4)
        if name == "last()":
            return among[-1:]
        if not attribute and name.isdigit():
            return among[int(name) - 1:int(name)]
        if attribute:
            return [one for one in among if name in one.attrib and value in (None, one.attrib[name])]
        if name == ".":
            return [one for one in among if "".join(one.itertext()) == value]
        return [
            one
            for one in among
            if [child for child in one.findall(name) if value is None or "".join(child.itertext()) == value]
        ]

    def iterfind(self, path, namespaces=None):
        return self.findall(path, namespaces)

    def find(self, path, namespaces=None):
        found = self.findall(path, namespaces)
        return found[0] if found else None

    def findtext(self, path, default=None, namespaces=None):
        found = self.find(path, namespaces)
        return default if found is None else found.text or ""

class _Tree:
    def __init__(self, root):
        self._root = root

    def getroot(self):
        return self._root

    def iter(self, tag=None):
        return self._root.iter(tag)

    def find(self, path, namespaces=None):
        return self._root.find(path, namespaces)

    def findall(self, path, namespaces=None):
        return self._root.findall(path, namespaces)

def _xml_name(name, spaces, fallback):
    prefix, colon, own = name.partition(":")
    space = spaces.get(prefix) if colon else fallback
    return ("{" + space + "}" + own if colon else "{" + space + "}" + name) if space else name

def _xml_read(text):
    if not isinstance(text, str):
        text = bytes(text).decode()
    root = None
    opened = []
    past = 0
    for piece in _XML_PIECE.finditer(text.strip()):
        if piece.start() != past:
            break
        past = piece.end()
        data, closing, name, attributes, empty, plain = piece.groups()
        if name is None:
            said = data if data is not None else _xml_text(plain) if plain is not None else ""
            if said and opened:
                _xml_said(opened[-1][0], said)
            elif said.strip():
                raise ValueError("syntax error: text outside of the document element")
            continue
        if closing:
            if not opened or opened.pop()[2] != name:
                raise ValueError(f"mismatched tag: </{name}>")
            continue
        if root is not None and not opened:
            raise ValueError("junk after document element")
        given = {}
        for found in _XML_ATTRIBUTE.finditer(attributes or ""):
            given[found.group(1)] = _xml_text(found.group(2) if found.group(2) is not None else found.group(3))
        spaces = opened[-1][1] if opened else {"": "", "xml": "http://www.w3.org/XML/1998/namespace"}
        new = {key.partition(":")[2]: value for key, value in given.items() if key.split(":")[0] == "xmlns"}
        if new:
            spaces = {**spaces, **new}
        attrib = {_xml_name(k, spaces, ""): v for k, v in given.items() if k.split(":")[0] != "xmlns"}
        element = _Element(_xml_name(name, spaces, spaces[""]), attrib)
        element._written = name
        element._given = given
        if opened:
            opened[-1][0].append(element)
        else:
            root = element
        if not empty:
            opened.append((element, spaces, name))
    if root is None or opened or past != len(text.strip()):
        raise ValueError(f"not well-formed XML, at character {past}")
    return root

def _xml_said(element, text):
    if element._children:
        last = element._children[-1]
        last.tail = (last.tail or "") + text
    else:
        element.text = (element.text or "") + text

class _ElementTree:
    Element = _Element
    ParseError = ValueError

    def fromstring(self, text):
        return _xml_read(text)

    def XML(self, text):
        return _xml_read(text)

    def parse(self, file):
        return _Tree(_xml_read(file.read()))

    def iselement(self, one):
        return isinstance(one, _Element)

class _Attribute:
    def __init__(self, name, value):
        self.name = name
        self.value = value
        self.nodeName = name
        self.nodeValue = value

class _Node:
    ELEMENT_NODE = 1
    TEXT_NODE = 3
    DOCUMENT_NODE = 9

    def __init__(self, kind, name, data, parent):
        self.nodeType = kind
        self.nodeName = name
        self.tagName = name
        self.localName = name.partition(":")[2] or name
        self.nodeValue = data
        self.data = data
        self.parentNode = parent
        self.childNodes = []
        self.attributes = {}
        self.firstChild = None
        self.lastChild = None
        if parent is not None:
            parent.firstChild = parent.firstChild or self
            parent.lastChild = self
            parent.childNodes.append(self)

    def __repr__(self):
        return f"<DOM {self.nodeName}>"

    def hasChildNodes(self):
        return bool(self.childNodes)

    def getAttribute(self, name):
        return self.attributes[name].value if name in self.attributes else ""

    def hasAttribute(self, name):
        return name in self.attributes

    def getElementsByTagName(self, name):
        found = []
        left = self.childNodes[::-1]
        while left:
            one = left.pop()
            if one.nodeType == 1 and name in ("*", one.nodeName):
                found.append(one)
            left += one.childNodes[::-1]
        return found

def _dom_of(root):
    document = _Node(9, "#document", None, None)
    left = [(root, _Node(1, root._written, None, document))]
    while left:
        element, node = left.pop()
        node.attributes = {key: _Attribute(key, value) for key, value in element._given.items()}
        if element.text:
            _Node(3, "#text", element.text, node)
        for child in element._children:
            left.append((child, _Node(1, child._written, None, node)))
            if child.tail:
                _Node(3, "#text", child.tail, node)
    document.documentElement = document.firstChild
    return document

class _MiniDom:
    def parseString(self, text):
        return _dom_of(_xml_read(text))

    def parse(self, file):
        return _dom_of(_xml_read(file.read()))

class _Part:
    pass

_added_xml = _Part()
_added_xml.etree = _Part()
_added_xml.etree.ElementTree = _ElementTree()
_added_xml.dom = _Part()
_added_xml.dom.minidom = _MiniDom()
"""
