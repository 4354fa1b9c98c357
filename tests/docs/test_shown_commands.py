"""Every command that somebody is shown is parsed by the real command tree; nothing runs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from fleetledger import command_line
from fleetledger.runtime.shown_commands import ELSEWHERE, OF_OPERATORS, ON_DEVICES, command_at
from tests.docs.shown_commands import ShownCommand, fault_of, in_docs, in_program
from tests.test_docs import commands, markdown_files

BROUGHT_BY_PAGES = ("fleetledger class describe",)
"""Commands that a reader adds by following a page."""


def faults(shown: list[ShownCommand]) -> list[str]:
    found = ((one, fault_of(one)) for one in shown if not one.line.startswith(BROUGHT_BY_PAGES))
    return [f"{one.place}: {one.line}: {fault}" for one, fault in found if fault]


def test_every_command_of_the_docs_can_be_typed() -> None:
    shown = list(in_docs())
    assert sum(one.whole for one in shown) > 100
    assert not faults(shown)


def test_every_command_that_the_program_shows_can_be_typed() -> None:
    shown = list(in_program())
    assert {"coordinator/reports/needs.py", "coordinator/dashboard/templates/trust.html"} <= {
        one.place for one in shown
    }
    assert not faults(shown)


@pytest.mark.parametrize("verbs", [ON_DEVICES, OF_OPERATORS])
def test_every_command_that_the_program_shows_can_be_typed_with_its_home(
    verbs: frozenset[str],
) -> None:
    """Problems of agents among them: `with_homes` adds the home where a text leaves the program."""
    home = Path("/srv/my fleet")
    shown = [(one.words, one) for one in in_program() if "…" not in one.line]
    found = [
        replace(one, line=command_at(one.line, home, verbs))
        for words, one in shown
        if words[0] in verbs and len(words) > 1 and " ".join(words[:2]) not in ELSEWHERE
    ]
    assert len(found) > 20
    assert not [one for one in found if "--home" not in one.line and "--help" not in one.line]
    assert not faults(found)


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ("fleetledger coordinator invite DEVICE", "has no 'invite'"),
        ("fleetledger model push", "version"),
        ("fleetledger model push many", "integer"),
        ("fleetledger model push 3 --everywhere", "everywhere"),
        ("fleetledger bundle make WHEEL --target TARGET --size 3", "size"),
    ],
)
def test_a_command_that_does_not_exist_is_found(line: str, fault: str) -> None:
    found = fault_of(ShownCommand("here", line, whole=True))
    assert found is not None
    assert fault in found.lower()


@pytest.mark.parametrize("verb", sorted(OF_OPERATORS | ON_DEVICES))
def test_commands_that_are_shown_with_a_home_take_one(verb: str) -> None:
    for path, command in commands(command_line.load(verb), verb):
        options = {option for parameter in command.params for option in parameter.opts}
        homes = {"--home"} if path not in ELSEWHERE else options & {"--home"}
        assert homes <= options, path


def test_nothing_is_installed_from_an_index_that_does_not_have_it() -> None:
    pages = [path for path in markdown_files() if "pip install 'fleetledger" in path.read_text()]
    assert not pages, "name the wheel, or a checkout"
