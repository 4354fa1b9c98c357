"""Sentences with counts are right for 0, 1 and 2: by functions, and by reading what is written."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import pytest

from fleetledger.coordinator.core import phrases
from fleetledger.runtime.count_words import agree, count_of
from fleetledger.transport.pages import words
from tests.rooms import ROOMS as ROOMS_OF_ALL
from tests.test_architecture import ROOT

NOUNS = "devices|entries|reports|rounds|images|contributions|models|samples|messages|groups|files"
VERBS = "are|have|hold|wait|fit|need|do|go|run|were|answer|stay"
ITSELF = re.compile(rf"VALUE ({NOUNS}|days)\b")
COUNTED = re.compile(rf"(?<!and )COUNTED ({VERBS})\b")
ROOMS = ("coordinator", "device_agent")
MORE_NOUNS = (
    "answers|axes|batches|bits|blocks|blobs|bytes|cases|channels|characters|classes|columns|counts|"
    "digits|exemplars|features|fields|frames|hashes|hours|images|inputs|integers|keys|labels|levels|"
    "lines|machines|masks|minutes|names|nats|nodes|numbers|operators|outputs|owners|parts|pictures|"
    "pixels|places|planes|points|problems|requests|rows|runs|scenes|seconds|seeds|sessions|sets|"
    "signatures|sites|stages|steps|sums|tensors|texts|times|tokens|traces|transfers|tries|"
    "values|versions|weights|windows|workers"
)
ANY_ITSELF = re.compile(rf"VALUE (held-out |other |more |class )?({NOUNS}|{MORE_NOUNS})\b")
LEFT = {
    "coordinator": 39,
    "device_agent": 32,
    "export": 14,
    "learning": 20,
    "methods": 17,
    "runtime": 1,
    "schemas": 25,
    "simulator": 14,
    "transport": 8,
}
"""Texts of each room with a value before such a word: bytes, shapes and names. It only falls."""
NO_NUMBERS = (
    "sqlite-utils rows",
    "VALUE images of VALUE, which no stage",
    "with VALUE devices give",
    "Device VALUE reports",
    "COUNTED VALUE images",
    "of method VALUE images",
)
"""Texts whose values are words."""
MANY_BY_ITS_PLACE = {
    "coordinator/dashboard/parts/presence_plot.py",
    "coordinator/provisioning/kits.py",
    "device_agent/core/standing_problems.py",
    "device_agent/samples/sources/folder.py",
}
"""Modules that say 1 in another branch."""


@pytest.mark.parametrize(
    ("number", "said"),
    [(0, "0 devices"), (1, "1 device"), (2, "2 devices"), (1204, "1,204 devices")],
)
def test_a_count_has_the_word_that_goes_with_it(number: int, said: str) -> None:
    assert count_of(number, "device") == said
    assert phrases.count_of(number) == said
    assert words.plural(number, "device") == said


@pytest.mark.parametrize(("number", "said"), [(0, "are"), (1, "is"), (2, "are")])
def test_a_verb_goes_with_its_number(number: int, said: str) -> None:
    assert agree(number, "is", "are") == said
    assert count_of(number, "entry", "entries") in {"0 entries", "1 entry", "2 entries"}


@pytest.mark.parametrize(
    ("hours", "said"), [(0.5, "0.5 hours"), (1.0, "1 hour"), (24.0, "24 hours")]
)
def test_a_span_has_its_unit(hours: float, said: str) -> None:
    assert count_of(hours, "hour") == said


@pytest.mark.parametrize(("days", "said"), [(1, "1 day"), (2, "2 days"), (1.5, "1.5 days")])
def test_days_are_counted(days: float, said: str) -> None:
    assert phrases.span(round(days * 86_400 * 10**9)) == said


def test_no_sentence_puts_a_number_before_a_word_by_itself() -> None:
    found = [
        f"{place}: {text}"
        for place, text in sentences()
        if ITSELF.search(text)
        and place not in MANY_BY_ITS_PLACE
        and not any(words in text for words in NO_NUMBERS)
    ]
    assert not found, "use fleetledger.runtime.count_words.count_of"


def test_no_verb_of_several_follows_a_count_of_one() -> None:
    found = [f"{place}: {text}" for place, text in sentences() if COUNTED.search(text)]
    assert not found, "use fleetledger.runtime.count_words.agree"


@pytest.mark.parametrize("room", ROOMS_OF_ALL)
def test_no_room_counts_by_itself_in_more_places(room: str) -> None:
    found = [f"{place}: {text}" for place, text in sentences((room,)) if ANY_ITSELF.search(text)]
    assert len(found) <= LEFT[room], "use fleetledger.runtime.count_words.count_of"
    assert len(found) == LEFT[room], f"{room} has {len(found)}: lower its figure"


def sentences(rooms: tuple[str, ...] = ROOMS) -> Iterator[tuple[str, str]]:
    """Yield every text with values in it: `COUNTED` is a count with its word, `VALUE` the rest."""
    for path in (file for room in rooms for file in sorted((ROOT / room).rglob("*.py"))):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.JoinedStr):
                yield str(path.relative_to(ROOT)), "".join(map(_said, node.values))


def _said(part: ast.expr) -> str:
    if isinstance(part, ast.Constant):
        return str(part.value)
    assert isinstance(part, ast.FormattedValue)
    call = part.value
    if isinstance(call, ast.Name) and call.id.isupper():
        return "LIMIT"
    counts = isinstance(call, ast.Call) and ast.unparse(call.func) in {"count_of", "plural"}
    return "COUNTED" if counts else "VALUE"


def test_the_reading_finds_what_is_wrong() -> None:
    wrong = ast.parse('f"{n} devices", f"{count_of(n)} have run it"').body[0].value  # type: ignore[attr-defined]
    first, second = ("".join(map(_said, text.values)) for text in wrong.elts)
    assert ITSELF.search(first)
    assert COUNTED.search(second)
