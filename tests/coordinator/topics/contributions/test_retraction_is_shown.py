"""What was retracted, and what descends from it, in lists and in words."""

from __future__ import annotations

from pathlib import Path

from typer.testing import CliRunner

from fleetledger.coordinator.cli import models
from fleetledger.coordinator.core.state_fold import state_of
from fleetledger.coordinator.core.work import AverageRound, FreezeNetwork, SolveHead
from fleetledger.coordinator.ledger.reader import ledger_of
from fleetledger.coordinator.reports.contributions import ContributionFilter, given
from fleetledger.coordinator.topics.contributions.commands import RetractContributions
from fleetledger.coordinator.topics.contributions.entries import ContributionRetracted
from fleetledger.coordinator.topics.lineages.entries import Successor
from fleetledger.coordinator.topics.models import queries as model_queries
from fleetledger.coordinator.topics.models.entries import ModelSolved
from fleetledger.coordinator.topics.rounds.entries import DescentMarked
from fleetledger.schemas.values import DeviceId
from tests.coordinator.core.harness import BACKBONE, Bench, contribution
from tests.coordinator.core.round_bench import NETWORK, RoundBench
from tests.coordinator.reports import of_home
from tests.coordinator.reports.test_sentences import said
from tests.coordinator.reports.test_views import write
from tests.coordinator.topics.contributions.test_retraction import learned, opens, taken


def retracted(bench: Bench, device: str) -> None:
    command = RetractContributions(device=DeviceId(device), reason="a broken camera")
    assert bench.command(command).done


def two_models() -> RoundBench:
    """One round for each model; dev-3 answered the second. A third model follows."""
    bench = RoundBench(per_stage=1)
    bench.lead()
    learned(bench, 1, "dev-1", "dev-2")
    taken(bench)
    opens(bench, "eel")
    learned(bench, 2, "dev-1", "dev-3")
    taken(bench)
    retracted(bench, "dev-3")
    opens(bench, "fox")
    learned(bench, 3, "dev-1")
    taken(bench)
    return bench


def test_models_show_of_whose_answers_they_descend(tmp_path: Path) -> None:
    write(tmp_path, two_models())
    with ledger_of(tmp_path) as ledger:
        known = state_of(ledger).models
    assert [row.descends for row in model_queries.models(known)] == [(), ("dev-3",), ("dev-3",)]
    assert model_queries.model_facts(known, 2).descends == ("dev-3",)
    assert model_queries.model_facts(known, 1).descends == ()
    told = CliRunner().invoke(models.app, ["show", "2", "--home", str(tmp_path)]).output
    assert "descends  from answers of dev-3, retracted" in told
    shown = CliRunner().invoke(
        models.app, ["list", "--home", str(tmp_path)], env={"COLUMNS": "160"}
    )
    assert "descends from dev-3" in " ".join(shown.output.split())


def test_a_mark_says_what_descends_and_never_that_it_was_undone() -> None:
    bench = two_models()
    (marked,) = bench.told(DescentMarked)
    assert said(marked) == (
        "The operator retracted answers of device dev-3: a broken camera. They are in the mean of "
        "round 2, which stays as it is. Models that descend from them: 2, and those to come; "
        "model 1 is the last from before it. To be without them, 1 round would have to be run "
        f"again, from before entry {marked.first_index}."  # type: ignore[attr-defined]
    )
    last = bench.told(ModelSolved)[-1]
    assert said(last).endswith(" It descends from retracted answers of dev-3.")


def test_parts_that_were_retracted_count_no_more(tmp_path: Path) -> None:
    bench = Bench()
    bench.begin("dev-1", "dev-2")
    bench.give("dev-1", contribution("a", samples={"cat": 3}))
    bench.give("dev-2", contribution("b", samples={"cat": 5}))
    retracted(bench, "dev-2")
    write(tmp_path, bench)
    assert bench.core.state.contributions.held() == {"dev-1": (1, 3), "dev-2": (0, 0)}
    assert [row.samples for row in of_home.classes(tmp_path)] == [3, 0]
    with ledger_of(tmp_path) as ledger:
        assert [one.state for one in given(ledger, ContributionFilter(), 9)] == [
            "retracted",
            "held",
        ]


def test_statistics_on_a_frozen_network_descend_from_the_answers_that_trained_it() -> None:
    successor = Successor(method=BACKBONE.method, settings={})
    bench = RoundBench(per_stage=1)
    bench.lead(NETWORK.model_copy(update={"successor": successor, "name": BACKBONE.name}))
    for device in bench.devices:
        bench.answer(device, 1, lineage=bench.core.state.lineages.current.digest)  # type: ignore[union-attr]
    bench.wait(0)
    bench.average(bench.asked_for(AverageRound))  # type: ignore[arg-type]
    assert isinstance(bench.asked_for(FreezeNetwork), FreezeNetwork)
    bench.handle(BACKBONE)
    bench.give("dev-1", contribution("a"))
    bench.give("dev-2", contribution("b"))
    bench.wait(0)
    solve = next(r for _ in range(3) for r in bench.wait(40) if isinstance(r, SolveHead))
    bench.make_model(solve)
    retracted(bench, "dev-2")
    (marked,) = bench.told(DescentMarked)
    assert isinstance(marked, DescentMarked)
    assert (marked.rounds, marked.versions, marked.last_version) == ((1,), (1,), None)
    assert len(bench.told(ContributionRetracted)) == 1, "its statistics leave the sum"
    again = next(r for _ in range(3) for r in bench.wait(40) if isinstance(r, SolveHead))
    bench.make_model(again)
    last = bench.told(ModelSolved)[-1]
    assert isinstance(last, ModelSolved)
    assert last.descends == ("dev-2",)
