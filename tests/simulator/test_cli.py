"""The verbs of `fleetledger simulate`, as a person calls them."""

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from fleetledger import command_line
from fleetledger.simulator.scenario.shipped import shipped_names, shipped_text
from fleetledger.simulator.scenario.studies import study_names, study_text
from tests.simulator.unrendered import without_pictures

ROOT = Path(__file__).parents[2]
ANSI = re.compile(r"\x1b\[[0-9;]*m")
Typed = Callable[..., tuple[int, str, str]]
"""Exit code, output and errors of a command."""


def simulate(*arguments: str, folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "fleetledger", "simulate", *arguments],
        cwd=folder,
        env={**without_pictures(ROOT / "src"), "COLUMNS": "200", **variables},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


@pytest.fixture
def typed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Typed:
    """Type a command here, since a program for each would mostly import."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setattr(command_line.app, "rich_markup_mode", command_line.app.rich_markup_mode)

    def said(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["fleetledger", "simulate", *arguments])
        with pytest.raises(SystemExit) as ended:
            command_line.main()
        code = ended.value.code
        assert isinstance(code, int)
        return code, *capsys.readouterr()

    return said


def test_every_scenario_that_ships_is_listed(typed: Typed):
    code, out, _ = typed("--list")
    assert code == 0
    for name in shipped_names():
        assert re.search(rf"^│ {name} ", out, re.M)


def test_a_scenario_is_shown_as_it_was_written(typed: Typed):
    assert typed("--show", "digits")[1] == shipped_text("digits")
    assert typed("--show", "dcid-sites")[1] == study_text("dcid-sites")


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        (["digit"], 1, "did you mean 'digits'?"),
        (["--show", "digit"], 1, "none called 'digit' ships"),
        (["digits", "--set", "devices.cout=3"], 1, "did you mean 'count'?"),
        (["digits", "--seeds", "one"], 1, "seeds"),
        (["digits", "--set", "data.set=npz", "--set", "data.root=none.npz"], 1, "none.npz"),
        (["--resume", "nowhere"], 1, "holds no run"),
        (["digits", "--resume", "nowhere"], 2, "exclude each other"),
        (["--resume", "nowhere", "--seeds", "1"], 2, "exclude each other"),
        (["--out", "here"], 2, "nothing to do"),
        (["digits", "--engine", "rays"], 2, "rays"),
        (["digits", "--engine", "mqtt", "--address", "there:1"], 2, "exclude each other"),
        (["sweep"], 2, "nothing to do"),
        (["--tiny", "--list"], 2, "exclude each other"),
        (["dcid-sites"], 1, "simulate sweep dcid-sites"),
        (["compare", "nowhere", "elsewhere"], 1, "nowhere"),
    ],
)
def test_what_cannot_be_done_is_told_without_a_traceback(
    tmp_path: Path, typed: Typed, arguments: list[str], code: int, told: str
):
    ended, _, error = typed(*arguments)
    assert ended == code, error
    text = " ".join(ANSI.sub("", error).replace("│", " ").split())
    assert told in text
    assert "Traceback" not in text
    assert list(tmp_path.iterdir()) == []


def test_the_help_names_both_verbs(typed: Typed):
    page = ANSI.sub("", typed("--help")[1])
    assert " run " in page
    assert " compare " in page


def test_a_tiny_step_says_aloud_what_stands_in_for_what(tmp_path: Path):
    done = simulate("digits", "--tiny", "--set", "data.set=fashion-mnist", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "tiny: cut to one tiny step to try it out: its figures are no result" in done.stderr
    assert "'fashion-mnist' is not at hand and made-up 'patterns' stand in" in done.stderr
    (kept,) = tmp_path.glob("runs/digits-*/scenario.toml")
    assert 'title = "Tiny step: ' in kept.read_text()


def test_every_study_that_ships_is_listed(typed: Typed):
    code, out, _ = typed("sweep", "--list")
    assert code == 0
    for name in study_names():
        assert re.search(rf"^│ {name} ", out, re.M)
