"""LGA's tables: what is taken from a run, and how cases are laid out."""

from __future__ import annotations

import pytest

from benchmarks.papers.lga_tables.ledger import choices
from benchmarks.papers.lga_tables.tables import (
    case_of,
    choice_table,
    proxy_bytes,
    seeds_table,
    table,
)
from fleetledger.coordinator.topics.proxy.entries import OldModelChosen
from fleetledger.coordinator.topics.proxy.state import OldModel
from fleetledger.coordinator.topics.rounds.entries import RoundOpened
from fleetledger.schemas.offers import Offer
from fleetledger.schemas.proxy import Scored, ScoredModel
from fleetledger.schemas.values import ClassName, DeviceId, Digest
from fleetledger.simulator.metrics.seed_metrics import SeedMetrics
from tests.schemas.examples import OFFER
from tests.simulator.fake_run import Shape, fake_seed

LOOKING = Shape(stages=3, rounds=4, looks=True)


@pytest.fixture(scope="module")
def metrics() -> SeedMetrics:
    return fake_seed(LOOKING, seed=1).metrics


def opened(number: int, stage: int, round_of_stage: int) -> RoundOpened:
    return RoundOpened(
        number=number,
        stage=stage,
        round_of_stage=round_of_stage,
        rounds_of_stage=2,
        cohort=(DeviceId("device-1"),),
        weights=OFFER,
        weights_class_names=(),
        class_names=(ClassName("cat"),),
        seed=1,
        deadline_seconds=1.0,
    )


def scored(number: int, score: float, current: int) -> OldModelChosen:
    newest = ScoredModel(round=number, weights=Digest.of(b"%d" % number), score=score)
    return OldModelChosen(
        number=number,
        answer=Scored(
            action=number,
            newest=newest,
            scored=(newest,),
            current=OFFER.digest,
            gradients=1,
            images=1,
            seconds=1.0,
        ),
        winner=newest,
        previous=None,
        current=OldModel(
            round=current,
            weights=Offer(digest=OFFER.digest, size=1, list_digest=OFFER.list_digest),
        ),
    )


def test_a_case_has_the_runs_accuracies_in_percent(metrics: SeedMetrics) -> None:
    case = case_of(metrics)
    assert case["accuracy"] == [round(100 * stage.accuracy, 2) for stage in metrics.stages]
    assert case["final"] == case["accuracy"][-1]
    assert case["average"] == pytest.approx(sum(case["accuracy"]) / 3, abs=0.01)


def test_what_devices_noticed_is_added_up(metrics: SeedMetrics) -> None:
    seen = case_of(metrics)["noticed"]
    # Five devices and two later stages; device 1 and 4 notice at once, 2 late, 3 and 5 never.
    assert seen == {"began": 10, "at_once": 4, "late": 2, "missed": 4, "false_alarms": 2}


def test_gradients_stand_beside_weights_of_all_stages(metrics: SeedMetrics) -> None:
    found = proxy_bytes(metrics)
    assert found == {
        "model_bytes": 3_000_000,
        "gradient_bytes": 18_000,
        "gradient_percent": 0.6,
    }


def test_a_run_without_a_proxy_has_no_bytes_of_one() -> None:
    metrics = fake_seed(Shape(stages=2, rounds=2), seed=1).metrics
    assert proxy_bytes(metrics) == {}
    name = "paper, without-psr"
    assert (
        table({name: {**case_of(metrics), "seconds": 1.0}}).splitlines()[2].endswith("| - | 1.0 |")
    )


def test_the_choice_of_a_stage_is_that_of_its_last_score() -> None:
    told = choices(
        [
            opened(1, 1, 1),
            scored(1, 0.5, current=1),
            opened(2, 1, 2),
            scored(2, 0.75, current=2),
            opened(3, 2, 1),
            scored(3, 0.25, current=2),
        ]
    )
    assert told == ["1.2 (0.50 to 0.75)", "1.2 (0.25 to 0.25)"]


def test_cases_stand_in_the_order_of_modes_and_presets(metrics: SeedMetrics) -> None:
    case = {**case_of(metrics), "seconds": 2.5}
    names = ["code, lga", "paper, fedavg", "paper, without-sdl", "paper, lga"]
    rows = table(dict.fromkeys(names, case)).splitlines()[2:]
    assert [row.split(" | ")[0].strip("| ") for row in rows] == [
        "paper, lga",
        "paper, without-sdl",
        "paper, fedavg",
        "code, lga",
    ]
    cells = {row.count("|") for row in table(dict.fromkeys(names, case)).splitlines()}
    assert len(cells) == 1


def test_cases_without_choices_are_not_in_their_table() -> None:
    cases = {
        "paper, lga": {"choices": ["1.2 (0.50 to 0.75)", "2.1 (0.25 to 0.25)"]},
        "paper, without-sbm": {"choices": ["1.4 (0.50 to 0.75)"]},
        "paper, fedavg": {"choices": []},
    }
    rows = choice_table(cases).splitlines()
    assert rows[0] == "| case | stage 1 | stage 2 |"
    assert rows[2:] == [
        "| paper, lga | 1.2 (0.50 to 0.75) | 2.1 (0.25 to 0.25) |",
        "| paper, without-sbm | 1.4 (0.50 to 0.75) |  |",
    ]


def test_cases_of_more_seeds_are_held_to_lga_seed_by_seed() -> None:
    def case(final: float) -> dict[str, float]:
        return {"final": final, "average": final + 1, "forgetting": 5.0}

    cases = {"paper, lga": case(90.0), "paper, fedavg": case(34.0), "code, lga": case(60.0)}
    further = {
        "paper, fedavg": {"2": case(36.0), "3": case(35.0)},
        "paper, lga": {"2": case(92.0), "3": case(94.0)},
    }
    rows = seeds_table(cases, further).splitlines()[-2:]
    assert rows[0] == "| paper, lga | 1, 2, 3 | 92.0 ± 5.0 | 93.0 ± 5.0 | 5.0 ± 0.0 |  |  |"
    assert rows[1].startswith("| paper, fedavg | 1, 2, 3 | 35.0 ± 2.5 |")
    assert rows[1].endswith("| +57.0 (+52.7 to +61.3) | +57.0 (+52.7 to +61.3) |")
    assert seeds_table(cases, {}) == ""


@pytest.mark.torch
def test_omega_decides_where_a_draw_meets_the_bound() -> None:
    """A class of twice the mean spread, one of a tenth; width 64, so lengths differ by a sixth."""
    from benchmarks.papers.lga_tables.omega import Drawn, shares

    wide, tight = Drawn(0.2, 0.4, 64), Drawn(0.2, 0.02, 64)
    assert shares([wide], 0.1) == {"whole": 0.0, "share": 100.0, "printed": 100.0}
    assert shares([wide, tight], 0.1)["share"] == 50.0
    assert shares([Drawn(0.6, 0.6, 64)], 0.1)["printed"] == 0.0
