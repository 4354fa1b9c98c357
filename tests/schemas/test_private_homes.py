"""Homes of programs are closed to other users of the machine."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from fleetledger.runtime.private_file import OWNER_AND_GROUP, keep_private, make_home


@pytest.fixture(autouse=True)
def _usual_umask() -> Iterator[None]:
    before = os.umask(0o022)
    yield
    os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_new_home_is_its_owners_and_an_agents_its_groups_too(tmp_path: Path) -> None:
    make_home(tmp_path / "coordinator")
    make_home(tmp_path / "agent", OWNER_AND_GROUP)
    assert (mode(tmp_path / "coordinator"), mode(tmp_path / "agent")) == (0o700, 0o750)
    assert keep_private(tmp_path / "coordinator") == ""
    assert keep_private(tmp_path / "agent", OWNER_AND_GROUP) == ""


def test_a_home_that_is_open_is_closed_and_that_is_said(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir(mode=0o755)
    assert "could read it (mode 0755); it has mode 0700 from here on" in keep_private(home)
    assert mode(home) == 0o700
    home.chmod(0o777)
    assert "mode 0750" in keep_private(home, OWNER_AND_GROUP)
    assert mode(home) == 0o750


def test_what_a_program_makes_then_is_no_other_users(tmp_path: Path) -> None:
    keep_private(tmp_path)
    (tmp_path / "file").write_text("x")
    (tmp_path / "folder").mkdir()
    assert (mode(tmp_path / "file"), mode(tmp_path / "folder")) == (0o640, 0o750)
