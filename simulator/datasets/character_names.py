r"""Names of characters as classes, which must be names of folders.

| character | class |
| --- | --- |
| can be a class name as it is | itself |
| space, newline, tab | `space`, `newline`, `tab` |
| `/`, `\`, `.` | `slash`, `backslash`, `full-stop` |
| any other | its code point, such as `u+000b` |
"""

from __future__ import annotations

from fleetledger.runtime.errors import InvalidValueError
from fleetledger.schemas.values import ClassName

_WORDS = {
    " ": "space",
    "\n": "newline",
    "\t": "tab",
    "/": "slash",
    "\\": "backslash",
    ".": "full-stop",
}


def character_class(character: str) -> ClassName:
    """Return the class of one character; no two characters share one."""
    if character in _WORDS:
        return ClassName(_WORDS[character])
    try:
        name = ClassName(character)
    except InvalidValueError:
        return _code_point(character)
    # Unicode NFC makes one of some characters; by their code points they stay two.
    return name if name == character else _code_point(character)


def _code_point(character: str) -> ClassName:
    return ClassName(f"u+{ord(character):04x}")
