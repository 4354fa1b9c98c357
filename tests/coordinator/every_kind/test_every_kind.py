"""A stored ledger with nearly every kind of entry fits, and says what it said.

`home.tar.xz` is a coordinator's home as `making.py` wrote it: the real core, ledger, makers and
methods over the in-memory broker, with scripted devices, owner and proxy. `facts.json` is what the
command line said of it. `making.py` and `facts.py` make both anew, with other keys, times and
digests, where a form of entry has changed.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks.house.kinds import entry_kinds
from tests.coordinator.every_kind.facts import FACTS, NOT_IN_IT, facts, run, unpack


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return unpack(tmp_path)


@pytest.fixture(scope="module")
def known() -> dict[str, Any]:
    return json.loads(FACTS.read_text("utf-8"))  # type: ignore[no-any-return]


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return facts(unpack(tmp_path_factory.mktemp("seen")))


def test_it_fits(home: Path, known: dict[str, Any]) -> None:
    said = run(home, "verify").splitlines()[-1]
    assert said.startswith(f"{known['size']} entries, ")
    assert said.endswith(f"root {known['root']}")


@pytest.mark.parametrize("what", ["size", "root", "kinds", "sentences", "told"])
def test_it_says_what_it_said(seen: dict[str, Any], known: dict[str, Any], what: str) -> None:
    assert seen[what] == known[what]


def test_what_it_was_made_of_gives_the_same_again(
    seen: dict[str, Any], known: dict[str, Any]
) -> None:
    """Every sum is the same anywhere; what follows from it is on the platform that made it."""
    for line, before in zip(seen["replayed"][:-1], known["replayed"][:-1], strict=True):
        if line != before:
            found, expected = line.split("\t"), before.split("\t")
            assert found[:2] == expected[:2]
            assert expected[2] == "equal"
            assert found[2] == "within tolerance" or "deleted by retention" in before, line


def test_every_kind_of_entry_is_in_it(known: dict[str, Any]) -> None:
    missing = entry_kinds().keys() - known["kinds"].keys() - NOT_IN_IT
    assert not missing, (
        f"no entry of {', '.join(sorted(missing))} in {FACTS.parent}: make it anew with one, or "
        "name it in NOT_IN_IT, and hold with a test of your own that a ledger with such an entry "
        "verifies and replays"
    )


def test_every_entry_in_it_is_of_a_kind_that_is_known(known: dict[str, Any]) -> None:
    unknown = known["kinds"].keys() - entry_kinds().keys()
    assert not unknown, f"ledgers with {', '.join(sorted(unknown))} cannot be read any more"
    assert not NOT_IN_IT & known["kinds"].keys()
