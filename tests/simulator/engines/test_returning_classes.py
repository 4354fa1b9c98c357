"""Plans in which classes return run alike on every engine, and count every sample once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fleetledger.simulator.datasets.loading import load_split
from fleetledger.simulator.engines.inprocess.engine import InProcessEngine
from fleetledger.simulator.engines.inprocess.light.engine import LightEngine
from fleetledger.simulator.engines.interface import Engine, Prepared
from fleetledger.simulator.engines.joint.engine import JointEngine
from fleetledger.simulator.engines.mqtt.engine import MqttEngine
from fleetledger.simulator.errors import ScenarioError
from fleetledger.simulator.records import StageRecord
from fleetledger.simulator.run.preparation import PreparedSeed
from fleetledger.simulator.scenario.loading import load_scenario
from tests.simulator.engines.test_same_records import flat, learn
from tests.simulator.rounds.small import Watching

REPETITION = (
    "stages.plan=repetition",
    "stages.options.again=1.0",
    "stages.classes=4",
    "stages.count=3",
    "stages.first=2",
    "devices.count=3",
)
DOMAINS = (
    "data.set=digit-styles",
    "stages.plan=domains",
    "stages.count=3",
    "stages.classes=4",
    "devices.count=2",
)
TRAINS = (
    "method.settings.epochs=1",
    "rounds.per_stage=2",
    "devices.partition.least_images=4",
    "devices.dropout=0.0",
)


@pytest.fixture(autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLEETLEDGER_CACHE", str(tmp_path_factory.getbasetemp() / "cache"))


def prepared(name: str, *changes: str) -> Prepared:
    scenario = load_scenario(name, changes)
    return PreparedSeed.load(scenario, 1).prepare(Watching())


def counted(records: list[StageRecord]) -> list[int]:
    return [sum(d.counted_samples for d in record.devices.values()) for record in records]


def arrived(what: Prepared) -> list[int]:
    return [sum(len(d.indices) for d in s.devices.values()) for s in what.plan.stages]


def both(make: Callable[..., Engine], what: Prepared, folder: Path) -> list[StageRecord]:
    """Records of light agents and of another engine, which are the same but for its own fields."""
    one, other = learn(LightEngine, what, folder / "light"), learn(make, what, folder / "other")
    assert [flat(record) for record in one] == [flat(record) for record in other]
    return one


@pytest.mark.parametrize("changes", [REPETITION, DOMAINS])
def test_sums_count_samples_of_classes_that_return_once(
    changes: tuple[str, ...], tmp_path: Path
) -> None:
    what = prepared("digits", *changes)
    records = both(InProcessEngine, what, tmp_path)
    assert what.plan.repeats
    assert counted(records) == arrived(what)
    assert [r.class_names for r in records] == [
        what.plan.names(s.classes) for s in what.plan.stages
    ]
    assert len(records[-1].model_classes) == 4


@pytest.mark.broker
def test_programs_learn_a_stage_without_any_new_class(tmp_path: Path) -> None:
    what = prepared("digits", *DOMAINS, "stages.count=2", "method.settings.map_width=64")
    assert what.plan.stages[1].classes == ()
    assert counted(both(MqttEngine, what, tmp_path)) == arrived(what)


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("digits-icarl", REPETITION),
        ("digits-icarl", DOMAINS),
        pytest.param("digits-lga", REPETITION, marks=pytest.mark.nightly),
        pytest.param("digits-fedhaf", REPETITION, marks=pytest.mark.nightly),
    ],
)
@pytest.mark.torch
def test_rounds_train_what_returns_and_what_they_keep(
    name: str, changes: tuple[str, ...], tmp_path: Path
) -> None:
    own: Any = {"digits-lga": ("rounds.cohort=3", "method.settings.inversion_steps=5")}
    plain = () if name == "digits-fedhaf" else TRAINS[:1]
    groups = ("devices.groups.rule=none", "devices.groups.joining=0") if "lga" in name else ()
    what = prepared(name, *changes, *plain, *TRAINS[1:], *groups, *own.get(name, ()))
    records = both(InProcessEngine, what, tmp_path)
    for stage, record in zip(what.plan.stages, records, strict=True):
        for device, met in stage.devices.items():
            trained, kept = record.devices[device].counted_samples, len(met.indices)
            assert kept <= trained <= kept + record.devices[device].stored_samples
    assert sum(d.stored_samples for d in records[-1].devices.values()) > 0


@pytest.mark.torch
def test_joint_training_has_everything_so_far(tmp_path: Path) -> None:
    what = prepared("digits-joint", *DOMAINS, *TRAINS[:2])
    records = learn(JointEngine, what, tmp_path)
    assert [record.class_names for record in records][1:] == [(), ()]
    assert len(records[-1].model_classes) == 4


@pytest.mark.parametrize("name", ["digits-dcid"])
def test_a_method_that_learns_a_class_in_one_stage_says_so(name: str) -> None:
    with pytest.raises(
        ScenarioError,
        match=r"stages\.plan: 'blurry' beside method\.name 'dcid', which learns a class in one .*;"
        r" take plan 'classes', or another method",
    ):
        load_scenario(name, ["stages.plan=blurry"])


def test_accuracy_is_told_by_domain_and_by_own_test_part(tmp_path: Path) -> None:
    from fleetledger.simulator.run.sample_evaluation import SampleEvaluation

    what = prepared("digits", *DOMAINS, "devices.test=own", "method.settings.map_width=64")
    evaluation, domains = SampleEvaluation(what), load_split(what.scenario.data, 1).test.domains
    kept, measured = evaluation.nothing(), []
    engine = LightEngine(what, tmp_path, Watching())
    for stage in what.plan.stages:
        record = engine.learn(stage)
        after, kept = evaluation.after(stage, record, engine.model_folder(record), kept)
        measured.append(after)
    engine.close()
    answers = kept.answers
    right = answers.predictions[-1] == answers.labels
    seen = np.isin(answers.labels, answers.seen(3))
    for place, name in enumerate(domains.names):
        here = seen & (domains.of_sample == place)
        assert measured[-1].domain_accuracy[name] == pytest.approx(right[here].mean())
    asked = [sum(n for _, n in record.own_answers.values()) for record in measured]
    came = [int(answers.asked(stage).sum()) for stage in (1, 2, 3)]
    assert asked == came  # every test sample that has come is on one device
    total = sum(r for r, _ in measured[-1].own_answers.values())
    assert total == int((right & answers.asked(3)).sum())
