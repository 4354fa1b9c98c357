"""The folder is a method's like any other: halves that meet in messages, a source that is named."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from fleetledger.methods import lga
from fleetledger.methods.registry import METHODS

FOLDER = Path(lga.__path__[0])


def imported(path: Path) -> set[str]:
    names = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names |= {f"{node.module}.{alias.name}" for alias in node.names} | {str(node.module)}
    return names


def test_halves_meet_only_in_messages_and_know_no_other_method():
    halves = {
        "fleetledger.methods.lga.device",
        "fleetledger.methods.lga.coordinator",
        "fleetledger.methods.lga.proxy",
    }
    others = tuple(
        f"fleetledger.methods.{name}." for name in METHODS if name != lga.DESCRIPTOR.name
    )
    for path in FOLDER.glob("*.py"):
        found = imported(path)
        allowed = {"fleetledger.methods.lga.proxy"} if path.name == "assignment.py" else set()
        assert not found & (halves - allowed), path.name
        assert not [name for name in found if name.startswith(others)], path.name


def test_the_readme_cites_the_paper():
    text = (FOLDER / "README.md").read_text(encoding="utf-8")
    assert lga.DESCRIPTOR.citation in text


@pytest.mark.torch
def test_both_sides_read_an_assignment():
    from fleetledger.methods.lga.coordinator import COORDINATOR
    from fleetledger.methods.lga.device import DEVICE

    assert DEVICE.assignment_type is COORDINATOR.assignment_type
