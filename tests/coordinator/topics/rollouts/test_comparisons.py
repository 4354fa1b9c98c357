"""What a device measured of a candidate stands in the ledger once, and gets a receipt each time."""

from coordinator.topics.rollouts.entries import ModelCompared
from schemas.receipts import ENTRY_OF, Accepted, Later
from schemas.rollouts import ModelComparison, Pairs
from schemas.values import ClassName, Digest
from tests.coordinator.core.harness import Bench, receipt


def comparison(number: int = 0, both: int = 9) -> ModelComparison:
    return ModelComparison(
        number=number,
        rollout=3,
        group=1,
        mode="shadow",
        candidate=Digest.of(b"new"),
        candidate_version=2,
        active=Digest.of(b"old"),
        active_version=1,
        classes={ClassName("cat"): Pairs(both=both, only_active=1)},
    )


def bench_with_a_device() -> Bench:
    bench = Bench()
    bench.begin("dev-1")
    return bench


def compared(bench: Bench) -> list[ModelComparison]:
    return [body.comparison for body, _, _ in bench.entries if isinstance(body, ModelCompared)]


def test_a_repeat_gets_the_same_receipt_and_no_second_entry() -> None:
    bench = bench_with_a_device()
    first = receipt(bench.message("dev-1", comparison()))
    assert receipt(bench.message("dev-1", comparison())) == first
    assert (first.about, first.key.stage, first.key.part) == ("comparison", 3, 0)
    assert isinstance(first.answer, Accepted)
    assert compared(bench) == [comparison()]
    assert bench.entries[first.answer.ledger_index][0].kind == ENTRY_OF["comparison"]


def test_another_installation_may_use_a_number_again() -> None:
    bench = bench_with_a_device()
    bench.message("dev-1", comparison())
    bench.message("dev-1", comparison(both=8))
    assert compared(bench) == [comparison(), comparison(both=8)]


def test_a_device_that_is_not_admitted_is_put_off() -> None:
    bench = bench_with_a_device()
    assert isinstance(receipt(bench.message("dev-2", comparison())).answer, Later)
    assert compared(bench) == []
