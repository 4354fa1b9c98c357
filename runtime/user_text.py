"""Text files that people write with the editors and shells of any system.

Windows puts a byte order mark in front, and its shell writes UTF-16 with one. Both are read. A line
ends with a line feed, a carriage return or both, and with nothing else: U+2028, U+0085 and other
signs that `str.splitlines` splits at may stand in a name.
"""

from __future__ import annotations

import codecs
import re

_ENDS = re.compile(r"\r\n|\n|\r")
_MARKS = {codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}


def decode_text(data: bytes) -> str:
    """Return a file's text without its mark; raise `UnicodeDecodeError`.

    Lines end with a line feed.
    """
    encoding = _MARKS.get(data[:2], "utf-8-sig")
    return _ENDS.sub("\n", data.decode(encoding))


def lines_of(text: str) -> list[str]:
    """Return the lines of a decoded text without their ends; empty ones at its end are left out."""
    return text.rstrip("\n").split("\n") if text.strip("\n") else []
