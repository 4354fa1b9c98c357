"""`fleetledger rollout …`, run as commands over ledgers that the real rules have written."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from typer.testing import CliRunner, Result

from fleetledger import command_line
from fleetledger.coordinator.core.state import ENTRY_KINDS
from fleetledger.coordinator.errors import AuditError, CommandError
from fleetledger.coordinator.ledger.reader import ledger_of
from fleetledger.coordinator.ledger.tiles import export
from fleetledger.coordinator.paths import ledger_path
from fleetledger.coordinator.reports.rollouts.plan_words import plan_of
from fleetledger.coordinator.settings import CoordinatorSettings, write_new
from fleetledger.coordinator.topics.rollouts.entries import RolloutMeasured
from fleetledger.coordinator.topics.rollouts.plan import RolloutPlan
from fleetledger.coordinator.trust.key_files import make_key
from fleetledger.runtime.command_report import OUTPUT_VARIABLE
from fleetledger.runtime.errors import NobodyToAskError
from fleetledger.schemas.rollouts import LocalHours
from tests.coordinator.core.harness import FLEET
from tests.coordinator.reports.test_views import write
from tests.coordinator.topics.releases.test_shares import ReleasedBench, key_file
from tests.coordinator.topics.rollouts.rollout_bench import BAD, RolloutBench
from tests.docs.command_schemas import schema_of
from tests.schemas import signing

Story = Callable[[], RolloutBench]


def planned_only() -> RolloutBench:
    bench = RolloutBench()
    bench.fleet(10)
    return bench


def gone_back() -> RolloutBench:
    """Four devices measure that it is worse, and every device goes back."""
    bench = planned_only()
    bench.begin_rollout(groups=(4, 1.0))
    for device in bench.offered(1):
        bench.answers(device, BAD)
        bench.settle()
    return bench


def going_on() -> RolloutBench:
    """The first group runs it, and has not said what came of it."""
    bench = planned_only()
    bench.begin_rollout()
    return bench


def home_of(folder: Path, story: Story) -> Path:
    write(folder, story())
    write_new(folder, CoordinatorSettings(fleet=FLEET))
    return folder


def run(home: Path, *words: str, form: str = "table") -> Result:
    result = CliRunner().invoke(
        command_line.app,
        ["rollout", *words, "--home", str(home)],
        env={"COLUMNS": "200", OUTPUT_VARIABLE: form},
    )
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def as_json(home: Path, *words: str) -> dict[str, Any]:
    """Return what a command says as JSON, which is as its schema says."""
    found = json.loads(run(home, *words, "--json").stdout)
    jsonschema.validate(found, schema_of(f"rollout {words[0]}"))
    return dict(found)


def test_a_plan_says_what_will_happen_on_how_many_devices(tmp_path: Path) -> None:
    home = home_of(tmp_path, planned_only)
    said = run(home, "plan", "2", "--dry-run", "--groups", "1,50%,100%").stdout
    assert "Model 2 goes to 10 devices in place of model 1, in 3 groups: 1, " in said
    assert "Group 1 is 1 device (dev-" in said
    assert "measured beside the active model before any device runs it" in said
    assert "takes every device back to model 1 by itself" in said
    assert (
        "Careful: group 2 is 4 devices with those before it, and 13 are needed to tell by "
        "themselves whether the model is worse (retention takes 11, no_class_lost takes 13): it is "
        "about 10 devices in all, so the verdict on retention and no_class_lost is inconclusive in "
        "every group, however well the model does; it would pause there, and you decide; where you "
    ) in said
    assert "Careful: group 2 has about 0 held-out images" in said
    alike = run(home, "plan", "2", "--dry-run", "--groups", "1,50%,100%", "--gate", "alike=1")
    assert "are needed to tell by themselves" not in alike.stdout
    assert said.rstrip().endswith("This would be planned; nothing was recorded.")
    with ledger_of(home) as ledger:
        assert list(ledger.find(ENTRY_KINDS["rollout.planned"])) == []


def test_a_plan_for_few_devices_says_what_follows_where_gates_stay_open(tmp_path: Path) -> None:
    home = home_of(tmp_path, planned_only)
    back = tmp_path / "plan.toml"
    back.write_text('on_unsure = "back"\n')
    said = run(home, "plan", "2", "--file", str(back)).stdout
    assert "it would go back there by itself, as the plan's on_unsure says" in said
    one = run(home, "plan", "2", "--dry-run", "--groups", "100%").stdout
    assert "it passes all the same, since the first group only tries whether the model" in one
    votes = run(home, "plan", "2", "--dry-run", "--gate", "no_class_lost=off", "--groups", "1,9,10")
    assert "group 2 is 9 devices" in votes.stdout
    assert "so the verdict on retention is inconclusive in every group" in votes.stdout
    nothing = run(home, "plan", "2", "--dry-run", "--gate", "min_images=0").stdout
    assert "needed to tell" not in nothing


def test_a_rollout_is_planned_started_paused_resumed_and_ended(tmp_path: Path) -> None:
    home = home_of(tmp_path, planned_only)
    assert "rollout 1 is planned: model 2" in run(home, "plan", "2").stdout
    with pytest.raises(NobodyToAskError, match=r"nobody can be asked here.*say --yes"):
        run(home, "start", "1")
    assert as_json(home, "start", "1", "--yes")["said"] == "rollout 1 begins"
    paused = as_json(home, "pause", "1", "--reason", "the harvest")
    assert paused["rollout"]["sentence"] == "Rollout 1 is paused: the harvest."
    assert as_json(home, "resume", "1")["rollout"]["stage"] == "running"
    ended = as_json(home, "abort", "1", "--yes", "--reason", "enough")
    assert (ended["rollout"]["stage"], ended["rollout"]["waits_for"]) == ("aborted", None)
    (listed,) = as_json(home, "list")["rollouts"]
    assert listed["sentence"] == "Rollout 1 was aborted: enough."


def test_going_back_tells_on_how_many_devices_first(tmp_path: Path) -> None:
    home = home_of(tmp_path, going_on)
    said = run(home, "back", "1", "--yes", "--reason", "too slow").stdout
    assert "0 devices have run model 2; every device goes back to model 1" in said
    assert as_json(home, "show", "1")["rollout"]["sentence"] == (
        "Rollout 1 went back to model 1: too slow."
    )


def test_a_group_is_approved(tmp_path: Path) -> None:
    home = home_of(tmp_path, planned_only)
    found = as_json(home, "plan", "2", "--approve", "operator", "--start", "--yes")
    assert (found["planned"], found["rollout"]) == (True, 1)
    assert as_json(home, "show", "1")["rollout"]["waits_for"] == "approval"
    approved = as_json(home, "approve", "1")
    assert approved["said"] == "group 1 of rollout 1 may go"
    assert approved["rollout"]["waits_for"] is None


def test_a_group_goes_by_a_signature_of_the_fleets_release_key_alone(tmp_path: Path) -> None:
    bench = ReleasedBench(key=None)
    bench.begin_rollout()
    bench.written(tmp_path)
    other = tmp_path / "other.pem"
    make_key(other, signing.RELEASE.verify_key.name)
    assert as_json(tmp_path, "show", "1")["rollout"]["waits_for"] == "signature"
    with pytest.raises(CommandError, match=r"release 2: .* no longer"):
        run(tmp_path, "approve", "1", "--key", str(other))
    with pytest.raises(
        CommandError, match="group 2 of rollout 1 waits for no release, but group 1"
    ):
        run(tmp_path, "approve", "1", "--group", "2", "--key", str(other))
    assert as_json(tmp_path, "show", "1")["rollout"]["waits_for"] == "signature"
    approved = as_json(tmp_path, "approve", "1", "--key", str(key_file(tmp_path)))
    assert approved["said"] == "release 2 is signed: model 2 goes out"
    assert approved["rollout"]["waits_for"] is None


def test_a_rollout_shows_its_gates_its_devices_and_why(tmp_path: Path) -> None:
    home = home_of(tmp_path, gone_back)
    said = run(home, "show", "1", "--devices").stdout
    assert said.startswith("Rollout 1 went back to model 1: with model 2, devices forget cat.")
    assert "fail: cat: 48 : 0" in said
    assert "dev-0001" in said
    lines = run(home, "show", "1", form="tsv").stdout.splitlines()
    heads = lines[0].split("\t")
    assert {"group", "gate", "outcome", "text"} <= set(heads)
    assert {line.split("\t")[heads.index("outcome")] for line in lines[1:]} >= {"fail", "pass"}


def test_verdicts_come_out_the_same_from_an_exported_ledger_elsewhere(tmp_path: Path) -> None:
    home = home_of(tmp_path / "home", gone_back)
    copy = tmp_path / "copy.db"
    shutil.copy(ledger_path(home), copy)
    elsewhere = tmp_path / "elsewhere"
    found = as_json(elsewhere, "verify", "1", "--ledger", str(copy))
    assert found["equal"]
    assert [one["outcome"] for one in found["verdicts"]] == ["fail", "fail"]
    said = run(home, "verify", "1").stdout
    assert "2 of 2 verdicts came out as recorded" in said
    assert not elsewhere.exists()


def test_verdicts_come_out_the_same_from_an_exported_folder(tmp_path: Path) -> None:
    home = home_of(tmp_path / "home", gone_back)
    run(home, "plan", "2")  # what the bench wrote is not signed, before a coordinator adds to it
    folder = tmp_path / "exported"
    with ledger_of(home) as ledger:
        export(ledger, folder)
    shutil.rmtree(home)
    found = as_json(tmp_path / "elsewhere", "verify", "1", "--ledger", str(folder))
    assert found["equal"]
    assert [one["outcome"] for one in found["verdicts"]] == ["fail", "fail"]
    (folder / "checkpoint").unlink()
    with pytest.raises(AuditError, match="checkpoint"):
        run(tmp_path / "elsewhere", "verify", "1", "--ledger", str(folder))


def test_a_verdict_that_says_otherwise_than_its_entries_is_found(tmp_path: Path) -> None:
    bench = gone_back()
    place = next(i for i, (body, _, _) in enumerate(bench.entries) if body.kind == "rollout.paused")
    measured = next(
        i for i, (body, _, _) in enumerate(bench.entries) if isinstance(body, RolloutMeasured)
    )
    body, device, time_ns = bench.entries[measured]
    assert isinstance(body, RolloutMeasured)
    bench.entries[measured] = (body.model_copy(update={"outcome": "pass"}), device, time_ns)
    assert place > measured
    write(tmp_path, bench)
    done = run(tmp_path, "verify", "1")
    assert done.exit_code == 1
    assert "DIFFERS" in done.stdout
    assert "outcome: recorded pass, made again fail" in done.stdout


def test_what_is_no_rollout_is_told(tmp_path: Path) -> None:
    home = home_of(tmp_path, planned_only)
    for words in (("show", "3"), ("verify", "3"), ("pause", "3")):
        with pytest.raises(CommandError, match="rollout: 3 is none"):
            run(home, *words)
    with pytest.raises(CommandError, match="version: 9 is not a model"):
        run(home, "plan", "9")


def test_a_plan_is_read_from_a_file_and_options_come_first(tmp_path: Path) -> None:
    file = tmp_path / "plan.toml"
    file.write_text(
        'groups = ["2", "10%", 1.0]\nsoak = "30m"\nhours = "22:00-05:00"\ntags = ["site=north"]\n'
        'shadow = "all"\n[gates]\nlatency = 1.5\nmemory = "off"\n'
    )
    found = plan_of(file, {"soak": "90s", "deadline": None, "gates": ["min_images=0"]})
    assert found.groups == (2, 0.1, 1.0)
    assert (found.soak_seconds, found.deadline_hours, found.shadow) == (90, 24, "all")
    assert found.hours == LocalHours(begins=22 * 60, ends=5 * 60)
    assert [str(tag) for tag in found.tags] == ["site=north"]
    assert found.gates.min_images == 0
    assert plan_of(None, {}) == RolloutPlan()
    kept = plan_of(file, {})
    assert (kept.gates.latency, kept.gates.memory) == (1.5, None)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"groups": "one"}, "neither a number of devices"),
        ({"groups": "5%,1%"}, "does not grow"),
        ({"soak": "soon"}, "is no time"),
        ({"hours": "night"}, "is not such as"),
        ({"gates": ["latency"]}, "is not NAME=VALUE"),
        ({"gates": ["speed=1"]}, "is not NAME=VALUE"),
        ({"gates": ["latency=fast"]}, "neither a number nor off"),
        ({"gates": ["latency=0.5"]}, "gates.latency"),
    ],
)
def test_what_makes_no_plan_is_told(options: dict[str, object], said: str) -> None:
    with pytest.raises(CommandError, match=said):
        plan_of(None, options)
