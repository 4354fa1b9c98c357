"""The section on plans by rows: its file, its scenario and its function run."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from fleetledger.simulator.datasets.loading import load_split
from fleetledger.simulator.plan.plan_maker import make_plan
from fleetledger.simulator.plan.plans import PLANS
from fleetledger.simulator.run.preparation import PreparedSeed
from fleetledger.simulator.scenario.loading import load_scenario
from tests.docs.tables import DOCS
from tests.outside import nothing_stays
from tests.simulator.engines.test_same_records import learn
from tests.simulator.rounds.small import Watching

TEXT = (DOCS / "scenarios.md").read_text(encoding="utf-8")
SECTION = TEXT.partition("### Plans as data\n")[2].partition("\n### ")[0]


@pytest.fixture(autouse=True)
def _own_plans_go() -> Iterator[None]:
    with nothing_stays(PLANS):
        yield


def example(language: str) -> str:
    (found,) = re.findall(rf"```{language}\n(.*?)```", SECTION, re.DOTALL)
    return found


def test_the_file_and_the_scenario_of_the_page_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from fleetledger.simulator.engines.inprocess.light.engine import LightEngine

    monkeypatch.setenv("FLEETLEDGER_CACHE", str(tmp_path / "cache"))
    (tmp_path / "plan.csv").write_text(example("csv"))
    (tmp_path / "mine.toml").write_text(example("toml"))
    scenario = load_scenario(str(tmp_path / "mine.toml"))
    what = PreparedSeed.load(scenario, 1).prepare(Watching())
    first, second = what.plan.stages
    assert [len(device.indices) for device in first.devices.values()] == [2, 1]
    assert what.plan.names((3,))[0] in what.plan.names(first.named)  # the label of the row
    records = learn(LightEngine, what, tmp_path / "run")
    assert [sum(d.counted_samples for d in r.devices.values()) for r in records] == [3, 2]
    assert second.returning


def test_the_function_of_the_page_is_a_plan() -> None:
    exec(example("python"), {})
    scenario = load_scenario("digits", ["data.per_class=10"]).model_copy(
        update={
            "stages": load_scenario("digits").stages.model_copy(
                update={"plan": "every-other", "count": 3, "options": {"share": 1.0}}
            )
        }
    )
    split = load_split(scenario.data, 1)
    plan = make_plan(scenario, split, 1)
    assert plan.repeats
    dealt = sum(len(d.indices) for stage in plan.stages for d in stage.devices.values())
    assert dealt == 100 + 67  # those of the last stage do not come back


def test_the_page_tells_every_plan_and_its_options() -> None:
    rows = SECTION.partition("| --- |")[2]
    told = dict(re.findall(r"^\| `([\w-]+)` \| .* \| (.*?) ?\|$", rows, re.MULTILINE))
    assert set(told) == set(PLANS)
    for name, options in told.items():
        given = dict(re.findall(r"`(\w+) = \"?([\w.-]+)\"?`", options))
        defaults = PLANS[name].check({})
        assert {option: str(getattr(defaults, option)) for option in given} == given
