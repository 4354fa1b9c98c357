"""The command runs a scenario's fleet through troubles, and says what it was given wrong."""

from __future__ import annotations

import logging

import pytest
from typer.testing import CliRunner

from fleetledger.runtime.exit_codes import ExitCode
from tests.chaos.__main__ import app


@pytest.fixture(autouse=True)
def logs_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other tests read what is logged."""
    monkeypatch.setattr(logging, "disable", lambda _level: None)


def test_the_fleet_of_a_scenario_keeps_every_promise() -> None:
    done = CliRunner().invoke(app, ["digits-tiny", "--seed", "7"])
    assert done.exit_code == 0, done.output
    assert "every promise was kept; both runs end with the aggregate" in done.output


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (["--seeds", "3 to 4"], "seeds: '3 to 4' is no range"),
        (
            ["digits-tiny", "--set", "stages.opened_by=reports"],
            "stages.opened_by: 'reports' lets the time",
        ),
        (["nowhere"], "nowhere"),
    ],
    ids=["range", "reports", "scenario"],
)
def test_what_it_cannot_run_is_told(given: list[str], told: str) -> None:
    done = CliRunner().invoke(app, given)
    assert done.exit_code == ExitCode.USAGE
    assert told in done.output
