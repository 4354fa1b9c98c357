"""`fleetledger device list`, `tag` and `pin`, and choosing devices by tags, run as commands."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest
from typer.testing import CliRunner

from fleetledger import command_line
from fleetledger.coordinator.core.state_fold import state_of
from fleetledger.coordinator.errors import CommandError
from fleetledger.coordinator.ledger.reader import ledger_of
from fleetledger.coordinator.settings import CoordinatorSettings, write_new
from fleetledger.runtime.errors import NobodyToAskError
from tests.coordinator.core.harness import FLEET
from tests.coordinator.reports.test_views import write
from tests.coordinator.topics.models.test_going_back import with_models
from tests.docs.command_schemas import schema_of


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Two models for all, and two devices, of which one has tags."""
    write(tmp_path, with_models(2))
    write_new(tmp_path, CoordinatorSettings(fleet=FLEET))
    run(tmp_path, "device", "tag", "dev-2", "site=north", "gpu=orin")
    return tmp_path


def run(home: Path, *words: str) -> str:
    done = CliRunner().invoke(
        command_line.app, [*words, "--home", str(home)], env={"COLUMNS": "200"}
    )
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done.output


def listed(home: Path, *words: str) -> dict[str, tuple[dict[str, str], int | None]]:
    shown = json.loads(run(home, "device", "list", *words, "--json"))
    jsonschema.validate(shown, schema_of("device list"))
    return {row["name"]: (row["tags"], row["pinned"]) for row in shown["devices"]}


def test_tags_are_put_shown_and_taken_away(home: Path) -> None:
    assert listed(home) == {"dev-1": ({}, None), "dev-2": ({"gpu": "orin", "site": "north"}, None)}
    assert run(home, "device", "tag", "dev-1", "dev-2", "site=south", "ring=1") == (
        "tags of 2 devices are changed\n"
    )
    run(home, "device", "tag", "dev-2", "gpu-", "site-")
    assert listed(home, "--tag", "ring") == {
        "dev-1": ({"ring": "1", "site": "south"}, None),
        "dev-2": ({"ring": "1"}, None),
    }
    assert list(listed(home, "--tag", "ring", "--tag", "site=south")) == ["dev-1"]


def test_a_model_is_pushed_to_devices_with_tags(home: Path) -> None:
    said = run(home, "model", "push", "1", "--tag", "site=north", "--yes")
    assert said.splitlines()[-1] == "model 1 goes to dev-2"
    with pytest.raises(CommandError, match=r"no device of dev-1 has site=north"):
        run(home, "model", "push", "1", "--tag", "site=north", "--device", "dev-1")


def test_devices_are_pinned_and_let_go(home: Path) -> None:
    said = run(home, "device", "pin", "--tag", "gpu", "1", "--yes")
    assert said.splitlines()[-1] == "dev-2: pinned to model 1"
    assert listed(home)["dev-2"][1] == 1
    assert "stays as it is pinned" in run(home, "model", "push", "2", "--yes")
    fleet = json.loads(run(home, "coordinator", "status", "--tag", "gpu", "--json"))
    (device,) = fleet["devices"]
    assert (device["desired_version"], device["pinned"]) == (1, 1)
    run(home, "device", "pin", "dev-2", "--none")
    assert listed(home)["dev-2"][1] is None


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["device", "tag", "site=a"], "none is named"),
        (["device", "pin", "dev-1"], "'dev-1' is no version"),
        (["device", "pin", "--none"], "none is named"),
        (["device", "list", "--tag", "site=south"], "no device has site=south"),
        (["coordinator", "status", "--tag", "dock"], "no device has dock"),
        (["coordinator", "revoke", "--tag", "site"], "say --yes if it is meant of 1 device: dev-2"),
        (["ledger", "retract", "dev-1", "dev-2", "--reason", "x"], "2 devices: dev-1, dev-2"),
    ],
)
def test_what_cannot_be_meant_is_told(home: Path, words: list[str], told: str) -> None:
    with pytest.raises((CommandError, NobodyToAskError), match=told):
        run(home, *words)


def test_what_is_done_to_several_is_done_to_each_and_what_is_refused_is_told(home: Path) -> None:
    run(home, "device", "tag", "dev-1", "site=north")
    run(home, "coordinator", "admit", "dev-3")
    run(home, "device", "tag", "dev-3", "site=north")
    words = ["ledger", "retract", "--tag", "site=north", "--reason", "x", "--yes"]
    with pytest.raises(CommandError, match="nothing of 'dev-3'"):
        run(home, *words)
    with ledger_of(home) as ledger:
        assert state_of(ledger).contributions.held()["dev-1"] == (0, 0)


def test_the_newest_entries_of_devices_with_a_tag_are_shown(home: Path) -> None:
    lines = run(home, "ledger", "tail", "--tag", "site=north").splitlines()
    assert len(lines) == 2
    assert all("Device dev-2 " in line for line in lines)
    assert "no device has dock" in run(home, "ledger", "tail", "--tag", "dock")


def test_one_device_is_shown_with_what_it_runs(home: Path) -> None:
    shown = json.loads(run(home, "device", "show", "dev-2", "--json"))
    jsonschema.validate(shown, schema_of("device show"))
    assert shown["device"]["tags"] == {"site": "north", "gpu": "orin"}
    assert "dev-2: unknown" in run(home, "device", "show", "dev-2")
    with pytest.raises(CommandError, match="device list"):
        run(home, "device", "show", "dev-9")
