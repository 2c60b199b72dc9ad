"""Reads the YAML of site files without PyYAML: nested mappings, lists, plain and quoted scalars, literal blocks (`|`),
lists and mappings on one line, comments. Anything else is an error with its line number, never a guess."""

import re

KEY = re.compile(r"""("(?:[^"\\]|\\.)*"|'(?:[^']|'')*'|[^\s"'\[\]{}#&*!|>%@`,?-][^#]*?|-[^\s#][^#]*?)\s*:(?:\s+|$)""")
WORDS = {"": None, "~": None, "null": None, "true": True, "True": True, "false": False, "False": False}
ESCAPES = {"n": "\n", "t": "\t", '"': '"', "\\": "\\", "/": "/", "0": "\0", "r": "\r", "e": "\x1b"}


class YamlError(Exception):
    """An error with its line number."""

    def __init__(self, line, problem):
        super().__init__(f"line {line}: {problem}")


class Line:
    """A non-empty line: its number, its indentation, and its text without a comment."""

    def __init__(self, number, indent, text):
        self.number, self.indent, self.text = number, indent, text


def parse(text):
    """Parses a document and returns its value; None if it is empty."""
    reader = Reader(text)
    value = reader.block(-1)
    line = reader.peek()
    if line:
        raise YamlError(line.number, "unexpected indentation")
    return value


def uncommented(text):
    """Removes a comment: a # at the start or after a blank, outside quotes."""
    quote = ""
    for at, letter in enumerate(text):
        if quote:
            quote = "" if letter == quote and not (quote == '"' and text[at - 1] == "\\") else quote
        elif letter in "\"'" and (at == 0 or text[at - 1] in " \t[{,:"):
            quote = letter
        elif letter == "#" and (at == 0 or text[at - 1] in " \t"):
            return text[:at].rstrip()
    return text.rstrip()


class Reader:
    """The lines of a document, parsed from top to bottom."""

    def __init__(self, text):
        self.raw, self.at = text.splitlines(), 0

    def peek(self):
        """Returns the next non-empty line; None at the end."""
        while self.at < len(self.raw):
            text = uncommented(self.raw[self.at])
            body = text.lstrip(" ")
            if body.startswith("\t"):
                raise YamlError(self.at + 1, "a tab in the indentation; use spaces")
            if body and not (body == "---" and self.at == self.first()):
                if re.match(r"(---|\.\.\.)(\s|$)", text):
                    raise YamlError(self.at + 1, "expected a single document")
                return Line(self.at + 1, len(text) - len(body), body)
            self.at += 1
        return None

    def first(self):
        return next(at for at, line in enumerate(self.raw) if uncommented(line))

    def block(self, outer, may_align=False):
        """Parses a mapping, list or scalar that is indented deeper than `outer`. A list may align with its key."""
        line = self.peek()
        is_list = line is not None and re.match(r"-(\s|$)", line.text)
        if line is None or line.indent < outer or line.indent == outer and not (may_align and is_list):
            return None
        if is_list:
            return self.sequence(line.indent)
        if KEY.match(line.text):
            return self.mapping(line.indent)
        self.at += 1
        return scalar(line.text, line.number)

    def sequence(self, indent):
        values = []
        while True:
            line = self.peek()
            if line is None or line.indent < indent or line.indent == indent and not re.match(r"-(\s|$)", line.text):
                return values
            if line.indent > indent:
                raise YamlError(line.number, "unexpected indentation")
            rest = line.text[1:].lstrip()
            if rest and (KEY.match(rest) or re.match(r"-\s", rest)):
                # The item is a nested block that begins after the dash.
                inner = indent + len(line.text) - len(rest)
                self.raw[self.at] = " " * inner + rest
                values.append(self.block(indent))
            else:
                self.at += 1
                values.append(self.value(rest, line, indent))

    def mapping(self, indent):
        values = {}
        while True:
            line = self.peek()
            if line is None or line.indent < indent:
                return values
            if line.indent > indent:
                raise YamlError(line.number, "unexpected indentation")
            found = KEY.match(line.text)
            if not found:
                raise YamlError(line.number, "expected KEY: VALUE")
            key = scalar(found[1], line.number)
            key = key if isinstance(key, str) else found[1]
            if key in values:
                raise YamlError(line.number, f"duplicate key {key}")
            self.at += 1
            values[key] = self.value(line.text[found.end() :], line, indent, True)

    def value(self, text, line, indent, may_align=False):
        """Parses the value after a dash or a colon: on the same line, or in the deeper lines below."""
        if text in ("|", "|-", "|+"):
            return self.literal(indent, text)
        if text:
            return scalar(text, line.number)
        return self.block(indent, may_align)

    def literal(self, indent, style):
        """Returns the lines of a literal block, without their common indentation."""
        lines = []
        while self.at < len(self.raw):
            text = self.raw[self.at]
            if text.strip() and len(text) - len(text.lstrip(" ")) <= indent:
                break
            lines.append(text)
            self.at += 1
        depth = min((len(line) - len(line.lstrip(" ")) for line in lines if line.strip()), default=0)
        text = "".join(line[depth:] + "\n" for line in lines)
        return text if style == "|+" else text.rstrip("\n") + ("\n" if style == "|" and text.strip() else "")


def scalar(text, number):
    """Parses a plain or quoted scalar, or a list or mapping on one line."""
    value, rest = flow(text, number, "")
    if rest.strip():
        raise YamlError(number, f"unexpected {rest.strip()!r} after a value")
    return value


def flow(text, number, ends):
    """Returns the value at the start of a text, and the rest. Within brackets a plain scalar stops at `ends`."""
    text = text.lstrip()
    if text[:1] in ('"', "'"):
        return quoted(text, number)
    if text[:1] in ("[", "{"):
        return bracketed(text, number)
    if text[:1] in tuple("&*!|>%@`"):
        raise YamlError(number, f"{text[0]!r}: anchors, tags and folded text are not supported; quote the value")
    plain = re.match(f"[^{re.escape(ends)}]*", text)[0] if ends else text
    if re.search(r":(\s|$)", plain) and not ends:
        raise YamlError(number, "a mapping inside a value; quote the value")
    return typed(plain.strip()), text[len(plain) :]


def quoted(text, number):
    pattern = r'"((?:[^"\\]|\\.)*)"' if text[0] == '"' else r"'((?:[^']|'')*)'"
    found = re.match(pattern, text)
    if not found:
        raise YamlError(number, "unterminated quote")
    if text[0] == "'":
        return found[1].replace("''", "'"), text[found.end() :]
    unknown = [letter for letter in re.findall(r"\\(.)", found[1]) if letter not in ESCAPES]
    if unknown:
        raise YamlError(number, f"unknown escape \\{unknown[0]}")
    return re.sub(r"\\(.)", lambda escape: ESCAPES[escape[1]], found[1]), text[found.end() :]


def bracketed(text, number):
    """Parses [A, B] or {KEY: VALUE, …} on one line."""
    close = "]" if text[0] == "[" else "}"
    values = [] if close == "]" else {}
    text = text[1:].lstrip()
    while text[:1] != close:
        if not text:
            raise YamlError(number, f"no {close} on this line")
        if close == "}":
            key, text = flow(text, number, ":,]}")
            if not text.startswith(":"):
                raise YamlError(number, "expected KEY: VALUE between the braces")
            values[str(key)], text = flow(text[1:], number, ",]}")
        else:
            value, text = flow(text, number, ",]}")
            values.append(value)
        text = text.lstrip()
        if text[:1] not in (",", close):
            raise YamlError(number, f"expected , or {close}")
        text = text[1:].lstrip() if text[:1] == "," else text
    return values, text[1:]


def typed(text):
    """Converts a plain scalar: null, a boolean, a number, or a string."""
    if text in WORDS:
        return WORDS[text]
    if re.fullmatch(r"[-+]?\d+", text):
        return int(text)
    return float(text) if re.fullmatch(r"[-+]?(\d+\.\d*|\.\d+)", text) else text
