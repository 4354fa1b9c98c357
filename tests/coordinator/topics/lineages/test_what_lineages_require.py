"""Lineages of somebody's own methods: who is waited for, and who is told what to install."""

from __future__ import annotations

from pathlib import Path

import pytest

from fleetledger.coordinator.core.rules import Rules, StageRules
from fleetledger.coordinator.topics.lineages import rules as lineage_rules
from fleetledger.coordinator.topics.lineages.commands import ImportBackbone
from fleetledger.coordinator.topics.stages.commands import OpenStage
from fleetledger.coordinator.topics.stages.entries import StageClosed
from fleetledger.methods import requirements
from fleetledger.runtime.registry import Origin
from fleetledger.schemas.assignments import Assignment
from fleetledger.schemas.reports import Problem
from fleetledger.schemas.requirements import Requirement
from tests.coordinator.core.harness import BACKBONE, CAPABLE, Bench, contribution, names, sent
from tests.coordinator.reports.test_fleet import here, live, seen

ORIGIN = Origin("my-lab", "0.1", "ab" * 32)
LAB = Requirement.of("method", "stsa", ORIGIN)
OWN = BACKBONE.model_copy(update={"requires": (LAB,)})
HAS = CAPABLE.model_copy(update={"features": CAPABLE.features | {LAB.feature}})
OTHER = CAPABLE.model_copy(update={"features": CAPABLE.features | {"my-lab@cdcdcdcdcdcd"}})
RULES = Rules(stages=StageRules(quiet_seconds=10, deadline_seconds=1e6))


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Bench:
    """A stage of a method of somebody's own; dev-1 has it, dev-2 lacks it, dev-3 has other code."""
    monkeypatch.setattr(requirements, "_origin", lambda _needed: ORIGIN)
    bench = Bench(RULES)
    bench.begin("dev-1", "dev-2", "dev-3")
    bench.born("dev-1", capabilities=HAS)
    bench.born("dev-3", capabilities=OTHER)
    bench.command(ImportBackbone(backbone=OWN))
    return bench


def test_devices_are_told_what_they_need(bench: Bench) -> None:
    requests = bench.born("dev-1", capabilities=HAS)
    (told,) = sent(requests, Assignment)
    assert isinstance(told, Assignment)
    assert told.requires == (LAB,)


def test_a_lineage_of_ours_says_nothing_of_it() -> None:
    bench = Bench()
    bench.begin("dev-1")
    (told,) = sent(bench.born("dev-1"), Assignment)
    assert "requires" not in told.model_dump(mode="json")
    assert "requires" not in BACKBONE.model_dump(mode="json")


def test_a_stage_waits_for_those_that_have_it_alone(bench: Bench) -> None:
    bench.command(OpenStage(class_names=names("eel")))
    assert bench.core.stages.missing(2) == ["dev-1"]
    bench.give("dev-1", contribution("a", stage=2, samples={"eel": 2}))
    bench.wait(11)
    closed = [body for body, _, _ in bench.entries if isinstance(body, StageClosed)][-1]
    assert (closed.answered, closed.expected) == (1, 1)


def test_the_operator_sees_who_lacks_it_and_who_has_other_code(
    bench: Bench, tmp_path: Path
) -> None:
    bench.message("dev-2", Problem(about="distribution", text="the same in its own words"))
    fleet = seen(tmp_path, bench, live(here("dev-1"), here("dev-2"), here("dev-3")))
    lacks, other = [need for need in fleet.needs if need.key.startswith("distribution:")]
    assert lacks.sentence == (
        "dev-2 lacks my-lab 0.1, which method 'stsa' is of: nothing waits for it."
    )
    assert lacks.more == "Install it there (pip install my-lab==0.1) and restart the agent."
    assert (lacks.devices, lacks.urgency) == (("dev-2",), "now")
    assert other.sentence == (
        "dev-3 has other code of my-lab 0.1, which method 'stsa' is of: nothing waits for it."
    )
    assert not [need for need in fleet.needs if need.key == "problem:distribution"]


def test_what_else_hinders_a_device_that_has_it_is_shown(bench: Bench, tmp_path: Path) -> None:
    bench.message("dev-1", Problem(about="distribution", text="it cannot be imported"))
    fleet = seen(tmp_path, bench, live(here("dev-1")))
    (need,) = [need for need in fleet.needs if need.key == "problem:distribution"]
    assert "it cannot be imported" in need.sentence


def test_a_coordinator_that_lacks_it_begins_no_lineage_with_it(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(requirements, "_origin", lambda _needed: None)
    size = bench.core.state.size
    answer = bench.command(ImportBackbone(backbone=OWN))
    assert not answer.done
    assert answer.text == (
        "method 'stsa' is of my-lab 0.1, which is not installed here; install it (pip install "
        "my-lab==0.1) and start the coordinator again"
    )
    assert bench.core.state.lineages.current == OWN
    assert lineage_rules.lacks(OWN) == answer.text
    assert size == bench.core.state.size
