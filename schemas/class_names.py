"""Names of classes that look like others, or hide something: rules for names that are new.

`ClassName` says what can be a name at all, and ledgers hold names that came before these rules. So
they are asked where a name comes in: by an operator's command, a device's report, a folder.

- `fault_of`: what nobody sees or can tell apart within one name, which is refused: format
  characters and other invisible ones, white space other than single spaces, private characters,
  heaps of marks, and letters of several scripts (the level "highly restrictive" of UTS #39: one
  script, or Latin with Han and Hiragana and Katakana, Han and Bopomofo, or Han and Hangul).
- `skeleton`: the same for two names that look alike, by NFKC and the letters of `_LOOKALIKES`.

A letter's script is the first word of its Unicode name, which tells apart all scripts that look
alike; Python has no table of scripts.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from functools import lru_cache

_REMEMBERED = 16_384
"""Names that were looked at: the same ones are asked about again and again."""
_JOINERS = "\u200c\u200d"
"""They change how letters of some scripts are drawn, and are nothing anywhere else."""
_INVISIBLE = frozenset(
    "\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u2800\u3164\uffa0\U0001d159"
)
_RESERVED_INVISIBLE = (range(0x2065, 0x2066), range(0xFFF0, 0xFFF9), range(0xE0000, 0xE1000))
"""Code points that Unicode keeps for invisible characters (Default_Ignorable_Code_Point)."""
_MOST_MARKS = 4
"""Marks on one letter, as UTS #39 allows."""
_VIRAMA = 9
"""Canonical combining class of the marks behind which joiners choose a form."""
_UNJOINED = frozenset(
    "\u0621\u0622\u0623\u0624\u0625\u0627\u0629\u062f\u0630\u0631\u0632\u0648\u0671\u0688\u0691\u0698"
)
"""Letters of Arabic that join no letter behind them."""
_WIDTHS = ("FULLWIDTH ", "HALFWIDTH ")
_COMMON = frozenset(
    """
    MODIFIER SUPERSCRIPT SUBSCRIPT MATHEMATICAL DOUBLE SCRIPT BLACK FEMININE MASCULINE MICRO
    KELVIN ANGSTROM OHM TURNED KATAKANA-HIRAGANA VERTICAL ITALIC BOLD
    """.split()  # noqa: SIM905 - words in lines are easier to read
)
"""First words of letters that no script owns."""
_HAN = frozenset({"CJK", "IDEOGRAPHIC", "KANGXI"})
_TOGETHER = (
    frozenset({"LATIN", "HAN", "HIRAGANA", "KATAKANA"}),
    frozenset({"LATIN", "HAN", "BOPOMOFO"}),
    frozenset({"LATIN", "HAN", "HANGUL"}),
)

_LOOKALIKES = {
    "A": "\u0391\u0410\u13aa\ua4ee",
    "B": "\u0392\u0412\u13f4\ua4d0\ua7b4",
    "C": "\u0421\u13df\u2ca4\ua4da",
    "D": "\u13a0\ua4d3",
    "E": "\u0395\u0415\u13ac\u2d39\ua4f0",
    "F": "\u03dc\ua4dd\ua798",
    "G": "\u050c\u13c0\u13f3\ua4d6",
    "H": "\u0397\u041d\u13bb\u2c8e\ua4e7",
    "J": "\u037f\u0408\u13ab\ua4d9\ua7b2",
    "K": "\u039a\u041a\u13e6\u2c94\ua4d7",
    "L": "\u13de\u2cd0\ua4e1",
    "M": "\u039c\u03fa\u041c\u13b7\u2c98\ua4df",
    "N": "\u039d\u2c9a\ua4e0",
    "O": "\u039f\u041e\u0555\u2c9e\u2d54\ua4f3",
    "P": "\u03a1\u0420\u13e2\u2ca2\ua4d1",
    "Q": "\u2d55",
    "R": "\u01a6\u13a1\u13d2\ua4e3",
    "S": "\u0405\u054f\u13d5\u13da\ua4e2",
    "T": "\u03a4\u0422\u13a2\u2ca6\ua4d4",
    "U": "\u054d\ua4f4",
    "V": "\u0474\u13d9\u2d38\ua4e6",
    "W": "\u051c\u13b3\u13d4\ua4ea",
    "X": "\u03a7\u0425\u2cac\u2d5d\ua4eb\ua7b3",
    "Y": "\u03a5\u0423\u04ae\u13a9\u13bd\u2ca8\ua4ec",
    "Z": "\u0396\u13c3\ua4dc",
    "a": "\u0251\u03b1\u0430",
    "b": "\u0184\u042c\u13cf",
    "c": "\u0441\u1d04\u2ca5\uabaf",
    "d": "\u0501\u13e7\ua4d2",
    "e": "\u0435\u04bd\uab32",
    "f": "\u0584\u1e9d\ua799\uab35",
    "g": "\u018d\u0261\u0581\u1d83",
    "h": "\u04bb\u0570\u13c2",
    "i": "\u0131\u0269\u026a\u03b9\u0456\u04cf\u13a5\ua647\uab75",
    "j": "\u03f3\u0458",
    "l": "\u0196\u01c0\u0399\u0406\u04c0\u2c92\u2d4f\ua4f2",
    "n": "\u0578\u057c",
    "o": "\u03bf\u03c3\u043e\u0585\u10ff\u1d0f\u1d11\u2c9f\uab3d",
    "p": "\u03c1\u0440\u2ca3",
    "q": "\u051b\u0563\u0566",
    "r": "\u0433\u1d26\u2c85\uab47\uab48\uab81",
    "s": "\u01bd\u0455\ua731\uabaa",
    "u": "\u028b\u03c5\u057d\u1d1c\ua79f\uab4e\uab52",
    "v": "\u03bd\u0475\u1d20\uaba9",
    "w": "\u026f\u0461\u051d\u0561\u1d21\uab83",
    "x": "\u0445",
    "y": "\u0263\u028f\u03b3\u0443\u04af\u10e7\u1d8c\u1eff\uab5a",
    "z": "\u1d22\uab93",
}
"""Letters of other scripts, and rare Latin ones, that look like a letter of ASCII.

Taken from confusables.txt of Unicode UTS #39, as the library confusable-homoglyphs 3.3.1 has it:
all letters of the basic plane in Greek, Coptic, Cyrillic, Armenian, Georgian, Hebrew, Tifinagh,
Cherokee, Lisu and Latin that look like one letter of ASCII and are not brought to it by NFKC.
"""
_ASCII = {"0": "O", "1": "l", "I": "l", "|": "l"}
_TABLE = str.maketrans(
    {other: letter for letter, others in _LOOKALIKES.items() for other in others} | _ASCII
)


@lru_cache(_REMEMBERED)
def fault_of(name: str) -> str:
    """Return why a name must not become a class, with the way out; empty where it may."""
    if name != unicodedata.normalize("NFC", name):
        return "is not in the form NFC; type its accents anew"
    for place, character in enumerate(name):
        if _is_hidden(name, place):
            return f"holds {_called(character)}, which nobody sees; type the name anew"
        if character.isspace() and character != " ":
            return f"holds {_called(character)}; use a plain space"
        if unicodedata.category(character) in ("Co", "Cs"):
            return f"holds {_called(character)}, which means nothing elsewhere; type the name anew"
    if name != " ".join(name.split(" ")).strip() or "  " in name:
        return "has spaces at an end, or several in a row; leave single ones between words"
    if _has_heaps(name):
        return "has marks without a letter, or more than four on one; type the name anew"
    scripts = _scripts(name)
    if len(scripts) > 1 and not any(scripts <= together for together in _TOGETHER):
        listed = " and ".join(script.title() for script in sorted(scripts))
        return f"has letters of {listed}, which can look alike; use those of one script"
    return ""


@lru_cache(_REMEMBERED)
def skeleton(name: str) -> str:
    """Return a text that is the same for names that look alike."""
    text = unicodedata.normalize("NFKC", name).translate(_TABLE)
    visible = (c for c in text if unicodedata.category(c) != "Cf")
    return unicodedata.normalize("NFC", "".join(visible)).translate(_TABLE).replace("rn", "m")


def look_alike(name: str, others: Iterable[str]) -> str | None:
    """Return one of `others` that looks like `name`; names of ASCII alone are told apart by type.

    `O` and `0` are classes of their own where somebody reads signs; `O` and a Greek omicron never
    are.
    """
    look = skeleton(name)
    return next(
        (
            other
            for other in others
            if other != name
            and skeleton(other) == look
            and not (name.isascii() and other.isascii())
        ),
        None,
    )


def _is_hidden(name: str, place: int) -> bool:
    character = name[place]
    if character in _JOINERS:
        return not _joins(name, place)
    variation = "\ufe00" <= character <= "\ufe0f" or "\U000e0100" <= character <= "\U000e01ef"
    if variation or character in _INVISIBLE:
        return True
    if any(ord(character) in reserved for reserved in _RESERVED_INVISIBLE):
        return True
    return unicodedata.category(character) in ("Cc", "Cf")


def _joins(name: str, place: int) -> bool:
    """Whether a joiner changes what is seen (the rules of IDNA, with Arabic for all that join)."""
    if not 0 < place < len(name) - 1:
        return False
    before, behind = name[place - 1], name[place + 1]
    if unicodedata.combining(before) == _VIRAMA:
        return True
    arabic = _script(before) == _script(behind) == "ARABIC"
    return name[place] == "\u200c" and arabic and before not in _UNJOINED


def _has_heaps(name: str) -> bool:
    marks = _MOST_MARKS + 1  # a mark at the beginning has no letter
    for character in name:
        is_mark = unicodedata.category(character) in ("Mn", "Me")
        marks = marks + 1 if is_mark else 0
        if marks > _MOST_MARKS:
            return True
    return False


def _scripts(name: str) -> frozenset[str]:
    found = {_script(character) for character in name if character.isalpha()}
    return frozenset(script for script in found if script)


def _script(letter: str) -> str:
    """Return the script of a letter, empty where no script owns it."""
    words = unicodedata.name(letter, "")
    for width in _WIDTHS:
        words = words.removeprefix(width)
    first = words.replace("-", " ").split(" ")[0] if words else ""
    if words.startswith("KATAKANA-HIRAGANA") or first in _COMMON:
        return ""
    return "HAN" if first in _HAN else first


def _called(character: str) -> str:
    name = unicodedata.name(character, "")
    return f"U+{ord(character):04X}" + (f" ({name.lower()})" if name else "")
