"""Without what a device gave, sum and head are those of a fleet that it never took part in."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from fleetledger.coordinator.cli import ledger as cli
from fleetledger.coordinator.core.state import ENTRY_KINDS, read_entry
from fleetledger.coordinator.ledger.verify import verify
from fleetledger.coordinator.topics.contributions.commands import RetractContributions
from fleetledger.coordinator.topics.models.entries import ModelDesired, ModelSolved
from fleetledger.schemas.receipts import Refused
from fleetledger.schemas.values import DeviceId
from tests.coordinator.replay.stories import Story, replay

FORMS = [
    {"form": "exact"},
    {"form": "compact"},
    {"form": "estimated", "groups": 5},
    {"method": "fedcof"},
]


def settings(form: dict[str, object]) -> dict[str, object]:
    """Small models; only STSA has a random map, whose width is set."""
    return {"map_width": 60, **form} if "form" in form else form


def without(folder: Path, form: dict[str, object]) -> ModelSolved:
    """The model of a fleet whose second device was never there."""
    story = Story(folder, "dev-1", "dev-3", **settings(form))
    story.give("dev-1", 1)
    story.give("dev-3", 3)
    story.give("dev-1", 4, part=1)
    solved = story.model()
    story.close()
    return solved


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.get("form") or form["method"])
def test_sum_and_head_equal_those_of_a_fleet_without_the_device(
    tmp_path: Path, form: dict[str, object]
) -> None:
    story = Story(tmp_path / "with", "dev-1", "dev-2", "dev-3", **settings(form))
    story.give("dev-2", 2)
    story.give("dev-1", 1)
    story.give("dev-2", 5, part=1)
    story.give("dev-3", 3)
    story.give("dev-1", 4, part=1)
    before = story.model()
    story.coordinator.command(
        RetractContributions(device=DeviceId("dev-2"), reason="its owner asked for it")
    )
    after = story.model()
    assert after.version > before.version
    never = without(tmp_path / "without", form)
    assert (after.aggregate, after.head) == (never.aggregate, never.head)
    assert after.aggregate != before.aggregate
    assert after.class_names == never.class_names

    told = [
        read_entry(entry.kind, entry.body) for entry in story.coordinator.engine.ledger.entries()
    ]
    desired = [body.version for body in told if isinstance(body, ModelDesired)]
    assert desired[-1] == after.version, "it goes out by the usual rules"
    assert verify(story.coordinator.engine.ledger, story.coordinator.blobs).ok
    code, out = replay(story.home, "--all")
    assert code == 0
    assert {line.split("\t")[2] for line in out.splitlines()[:-1]} == {"equal"}
    story.close()


def test_the_command_is_explained_and_a_repeat_is_refused(tmp_path: Path) -> None:
    story = Story(tmp_path, "dev-1", "dev-2", map_width=60)
    story.give("dev-1", 1)
    story.give("dev-2", 2)
    story.model()
    story.coordinator.close()
    answer = CliRunner().invoke(
        cli.app,
        ["retract", "dev-2", "--part=1/0", "--reason=a broken camera", f"--home={tmp_path}"],
    )
    assert answer.exit_code == 0, answer.output
    assert "1 contribution of device dev-2 left the sum" in answer.stdout
    story.come_back()
    ledger = story.coordinator.engine.ledger
    (entry,) = ledger.find(ENTRY_KINDS["contribution.retracted"])
    shown = CliRunner().invoke(cli.app, ["show", str(entry.index), "--home", str(tmp_path)])
    assert shown.stdout.startswith(
        "The operator took part 0 of stage 1 of device dev-2 out of the sum, for good: a broken "
        "camera. It was entry "
    )
    assert (entry.actor, entry.device) == ("operator", None)
    refused = story.give("dev-2", 2).answer
    assert isinstance(refused, Refused)
    assert refused.retracted
    refused = story.give("dev-2", 2, part=3).answer
    assert isinstance(refused, Refused), "the same payload under another number"
    story.close()


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (("--part", "one"), "--part: 'one' is not STAGE/PART, such as 1/0"),
        (("--part", "0/0"), "--part: stage"),
        (("--reason", ""), "--reason: reason"),
    ],
)
def test_what_cannot_be_read_is_a_usage_error(
    tmp_path: Path, options: tuple[str, ...], why: str
) -> None:
    arguments = ["retract", "dev-2", "--reason", "text", *options, "--home", str(tmp_path)]
    answer = CliRunner().invoke(cli.app, arguments)
    assert answer.exit_code == 2
    assert why in answer.output
