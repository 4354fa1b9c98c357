"""Models and contributions that wait say what for and until when, and it comes so."""

from __future__ import annotations

from pathlib import Path

import pytest

from fleetledger.coordinator.core.rules import RolloutRules, Rules
from fleetledger.coordinator.topics.rollouts.commands import EndRollout
from tests.coordinator.core.harness import SECOND, Bench, contribution
from tests.coordinator.reports.test_fleet import NOW, live, seen
from tests.coordinator.topics.models.test_models import wanted, with_model
from tests.coordinator.topics.rollouts.rollout_bench import RolloutBench


def learned(parts: int = 1) -> Bench:
    """A model of what two devices gave, and so many contributions since."""
    bench = with_model()
    for number in range(parts):
        device = f"dev-{number % 2 + 1}"
        bench.give(device, contribution(f"late {number}", part=number + 1))
    return bench


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        (1, "1 contribution of 1 device waits for the next model, which is made at "),
        (2, "2 contributions of 2 devices wait for the next model, which is made at "),
    ],
)
def test_contributions_wait_for_the_next_model_until_it_is_made(
    tmp_path: Path, parts: int, words: str
) -> None:
    bench = learned(parts)
    due = bench.core.models.next_ns(bench.now_ns)
    assert due is not None
    assert due > bench.now_ns
    assert not bench.wait((due - bench.now_ns) / SECOND - 1)
    assert wanted(bench.wait(1)).version == 2
    assert bench.core.models.next_ns(bench.now_ns) is None, "it is being made"
    (told,) = seen(tmp_path, bench, live(next_model_ns=NOW + 3600 * SECOND)).models.waits
    assert told.sentence == f"{words}02:23 UTC at the earliest."
    assert told.until == NOW + 3600 * SECOND


def test_nothing_waits_where_the_newest_model_has_all(tmp_path: Path) -> None:
    bench = learned(0)
    assert bench.core.models.next_ns(bench.now_ns) is None
    assert seen(tmp_path, bench, live()).models.waits == ()
    (changed,) = seen(tmp_path / "b", bench, live(next_model_ns=NOW)).models.waits
    assert changed.sentence == "What counts has changed since model 1: the next model is made now."
    assert seen(tmp_path / "c", bench, None).models.waits == ()


def test_a_version_waits_until_the_open_rollout_ends(tmp_path: Path) -> None:
    bench = RolloutBench(Rules(rollouts=RolloutRules(automatic_from=0)))
    bench.fleet(4)
    bench.begin_rollout()
    bench.make(3)
    assert bench.core.rollouts.waiting() == 3
    (told,) = seen(tmp_path, bench, live(waiting_version=3)).models.waits
    assert told.sentence == (
        "Model 3 waits until rollout 1 of model 2 ends, and goes out by itself then."
    )
    bench.command(EndRollout(rollout=1))
    bench.settle()
    assert bench.core.rollouts.waiting() is None
    desired = bench.core.state.models.desired
    assert desired is not None
    assert desired.version == 3
