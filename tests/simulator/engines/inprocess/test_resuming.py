"""A run that was cut off goes on where it stopped, and comes to the same digests."""

from __future__ import annotations

from pathlib import Path

import pytest

from fleetledger.coordinator.topics.contributions.entries import ContributionWithdrawn
from fleetledger.simulator.engines.inprocess.engine import InProcessEngine
from fleetledger.simulator.virtual.loop import Loop
from tests.simulator.engines.inprocess.small import (
    Quiet,
    bodies,
    digests,
    fleet_of,
    learn_all,
)

BY_DAY = [*(("exact", steps) for steps in (3, 70, 120, 200)), ("estimated", 90)]
"""At the beginning, in the midst of both stages and at the end; points between are by night."""


class PowerCutError(Exception):
    pass


def cut_after(monkeypatch: pytest.MonkeyPatch, steps: int) -> None:
    """End everything after some steps of the virtual world."""
    step, left = Loop.step, [steps]

    def counted(loop: Loop) -> None:
        left[0] -= 1
        if left[0] < 0:
            raise PowerCutError
        step(loop)

    monkeypatch.setattr(Loop, "step", counted)


@pytest.mark.parametrize(
    ("form", "steps"),
    [
        pytest.param(form, steps, marks=[] if (form, steps) in BY_DAY else [pytest.mark.nightly])
        for form in ("exact", "estimated")
        for steps in (3, 40, 70, 90, 120, 150, 200)
    ],
)
def test_a_run_that_was_cut_off_ends_with_the_same_digests(
    tmp_path: Path,
    cache: Path,
    monkeypatch: pytest.MonkeyPatch,
    form: str,
    steps: int,
) -> None:
    prepared = fleet_of(cache, form)
    undisturbed = digests(learn_all(prepared, tmp_path / "undisturbed"))
    records, cuts = [], 0
    with monkeypatch.context() as patch:
        engine = InProcessEngine(prepared, tmp_path / "cut", Quiet())
        cut_after(patch, steps)
        for stage in prepared.plan.stages:
            try:
                records.append(engine.learn(stage))
            except PowerCutError:
                cuts += 1
                engine.close()
                patch.undo()
                engine = InProcessEngine(prepared, tmp_path / "cut", Quiet())
                records.append(engine.learn(stage))
    withdrawn = [body for _, body in bodies(engine) if isinstance(body, ContributionWithdrawn)]
    engine.close()
    assert cuts == 1
    assert digests(records) == undisturbed
    assert withdrawn == []


def test_a_stage_of_a_former_run_is_recorded_again(tmp_path: Path, cache: Path) -> None:
    prepared = fleet_of(cache)
    before = learn_all(prepared, tmp_path)
    engine = InProcessEngine(prepared, tmp_path, Quiet())
    again = [engine.learn(stage) for stage in prepared.plan.stages]
    engine.close()
    assert digests(again) == digests(before)
    assert "before the run was resumed" in again[0].notes[-1]
    assert not any(again[0].seconds.values())
    assert again[0].answers_per_second is None
    for old, new in zip(before, again, strict=True):
        assert {n: d.counted_samples for n, d in new.devices.items()} == {
            n: d.counted_samples for n, d in old.devices.items()
        }
