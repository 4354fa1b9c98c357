"""Rounds that are robust: what is asked and recorded, and what pages and commands show of it."""

from __future__ import annotations

from pathlib import Path

from fleetledger.coordinator.core.entry import EntryContext
from fleetledger.coordinator.core.work import AverageRound
from fleetledger.coordinator.topics.rounds.entries import RoundOpened
from fleetledger.methods.training.robust import Robust
from tests.coordinator.core.round_bench import NETWORK, RoundBench, averaged
from tests.coordinator.dashboard.asked import page_of

RULES = {"mean": "trimmed", "trim": 0.3, "max_norm": 2.0}


def bench(**network: object) -> RoundBench:
    found = RoundBench(3, robust=RULES)
    found.lead(NETWORK.model_copy(update=network))
    return found


def measured(of: RoundBench, cosines: tuple[float | None, ...]) -> None:
    request = of.whole_round(1)
    assert isinstance(request, AverageRound)
    body = averaged(request).model_copy(update={"norms": (1.0, 2.5, 1.1), "cosines": cosines})
    of.handle(body)


def test_a_round_records_how_its_answers_count_and_says_so() -> None:
    (opened,) = bench().told(RoundOpened)
    assert isinstance(opened, RoundOpened)
    assert opened.robust == Robust(**RULES)
    said = opened.say(EntryContext(0))
    assert "their mean without 0.3 of them at each end, of moves up to 2; longer" in said
    assert RoundOpened.model_validate_json(opened.model_dump_json()) == opened


def test_a_method_that_does_more_with_answers_has_none() -> None:
    of = RoundBench(3, robust=RULES)
    of.lead(NETWORK.model_copy(update={"method": "dcid"}))
    assert all(body.robust is None for body in of.told(RoundOpened))  # type: ignore[attr-defined]


def test_a_round_without_it_says_nothing_of_it() -> None:
    of = RoundBench(3)
    of.lead()
    (opened,) = of.told(RoundOpened)
    assert "robust" not in opened.model_dump_json()
    assert "Answers become" not in opened.say(EntryContext(0))


def test_the_answer_that_lies_farthest_from_the_others_is_told_with_its_device(
    tmp_path: Path,
) -> None:
    of = bench()
    measured(of, (0.4, -0.75, None))
    facts = of.core.state.rounds.facts[1]
    assert (facts.least_cosine, facts.farthest) == (-0.75, "dev-2")
    page = page_of(tmp_path, of, "/rounds/1")
    assert sorted(page["norms"].values()) == [1.0, 1.1, 2.5]
    assert -0.75 in page["cosines"].values()


def test_answers_that_did_not_move_are_no_farthest() -> None:
    of = bench()
    measured(of, (None, None, None))
    facts = of.core.state.rounds.facts[1]
    assert (facts.least_cosine, facts.farthest) == (None, None)
