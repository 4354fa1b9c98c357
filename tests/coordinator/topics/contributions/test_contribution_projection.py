"""The rows of contributions are the same, whether they are committed together or one by one."""

from __future__ import annotations

from pathlib import Path

from fleetledger.coordinator.ledger.entries import EntryDraft
from fleetledger.coordinator.ledger.store import Ledger
from fleetledger.coordinator.paths import ledger_path
from fleetledger.coordinator.reading.tables import TABLES
from fleetledger.schemas.contributions import PartKey, Withdrawal
from fleetledger.schemas.rounds import Observation, RoundAnswer
from tests.coordinator.core.harness import Bench, contribution
from tests.coordinator.core.round_bench import RoundBench


def drafts(bench: Bench) -> list[EntryDraft]:
    return [
        EntryDraft(body.kind, "test", body.model_dump(mode="json"), device, body.blobs, time_ns)
        for body, device, time_ns in bench.entries
    ]


def contributions(home: Path, *groups: list[EntryDraft]) -> dict[str, list[tuple[object, ...]]]:
    """The rows that the groups leave in the tables of contributions."""
    with Ledger.open(ledger_path(home), TABLES) as ledger:
        for group in groups:
            ledger.append(group)
        assert TABLES.first_difference(ledger.db, ledger.entries()) is None
        return {
            name: ledger.db.execute(f"SELECT * FROM {name} ORDER BY 1, 2").fetchall()
            for name in ("contribution", "contribution_class")
        }


def test_a_part_may_be_replaced_and_withdrawn_in_the_group_that_brought_it(tmp_path: Path) -> None:
    bench = Bench()
    bench.begin("dev-1", "dev-2")
    for revision, text in enumerate("abc"):
        bench.give("dev-1", contribution(text, revision=revision, samples={"dog": 2, "cat": 1}))
    bench.give("dev-2", contribution("d"))
    bench.message("dev-2", Withdrawal(key=PartKey(stage=1, part=0), revision=1, reason="moved"))
    bench.give("dev-2", contribution("e", revision=2))
    together = contributions(tmp_path / "together", drafts(bench))
    assert together == contributions(tmp_path / "alone", *([draft] for draft in drafts(bench)))
    states = [row[8] for row in together["contribution"]]
    assert states == ["replaced", "replaced", "held", "withdrawn", "held"]


def test_answers_to_a_round_say_whether_they_count_and_what_devices_saw(tmp_path: Path) -> None:
    bench = RoundBench()
    bench.lead()
    seen = Observation(entropy=0.5, images=7, transition=True)
    watchful = RoundAnswer(number=1, samples=3, steps=2, seconds=0.5, observation=seen)
    bench.answer("dev-1")
    bench.answer("dev-2", round=watchful)
    bench.wait(200)
    bench.answer("dev-3")
    together = contributions(tmp_path / "together", drafts(bench))
    assert together == contributions(tmp_path / "alone", *([draft] for draft in drafts(bench)))
    assert [row[8] for row in together["contribution"]] == ["answer", "answer", "late"]
