"""Answers that are decided together come to what each of them would come to alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetledger.coordinator.core import inputs
from fleetledger.coordinator.core.entry import NewEntry
from fleetledger.coordinator.core.saved_state import write_state
from fleetledger.coordinator.ledger.runs import EntryRun
from fleetledger.coordinator.topics.contributions.accepted_answers import (
    AcceptedAnswers,
    StoredAnswer,
)
from fleetledger.coordinator.topics.devices.commands import RetireDevice
from fleetledger.schemas.canonical import canonical_json
from fleetledger.schemas.contributions import Contribution
from fleetledger.schemas.rounds import Observation, RoundAnswer
from fleetledger.schemas.values import DeviceId, Digest
from tests.coordinator.core.round_bench import RoundBench, update_of

DEVICES = 6


def bench_in_a_round() -> RoundBench:
    bench = RoundBench(devices=DEVICES)
    bench.lead()
    return bench


def answer(
    device: str, like: Contribution, text: str | None = None, loss: float | None = None
) -> StoredAnswer:
    return StoredAnswer(DeviceId(device), like, Digest.of((text or device).encode()), loss)


def like(count: int = 3, steps: int = 2, **changes: object) -> Contribution:
    told = RoundAnswer(number=1, samples=count, steps=steps, seconds=0.5)
    return update_of(1, "x", **{"samples": {"cat": count}, "round": told, **changes})


def together(bench: RoundBench, stored: Sequence[StoredAnswer]) -> AcceptedAnswers | None:
    run = bench.core.intake.answers(stored)
    if run is not None:
        bench.core.take_answers(run, bench.now_ns)
    return run


def singly(bench: RoundBench, stored: Sequence[StoredAnswer]) -> list[NewEntry]:
    entries: list[NewEntry] = []
    for happening in inputs.AnswersStored(stored).singly:
        decision = bench.core.handle(happening, bench.now_ns)
        assert not decision.requests
        for entry in decision.entries:
            assert not bench.core.apply(entry, bench.now_ns)
        entries.extend(decision.entries)
    return entries


def bodies(run: EntryRun) -> list[bytes]:
    filled = []
    for values in zip(*run.columns, strict=True):
        cut = iter(run.pieces)
        filled.append((next(cut) + "".join(v + next(cut) for v in values)).encode())
    return filled


@given(
    st.lists(
        st.tuples(
            st.integers(1, DEVICES),
            st.integers(1, 3),
            st.integers(1, 2),
            st.sampled_from([None, 0.5, 1e-30, 3.0]),
        ),
        min_size=1,
        max_size=DEVICES,
        unique_by=lambda drawn: drawn[0],
    )
)
def test_entries_state_and_text_are_those_of_single_answers(
    drawn: list[tuple[int, int, int, float | None]],
) -> None:
    kinds = {(n, steps): like(n, steps) for _, n, steps, _ in drawn}
    stored = [answer(f"dev-{d}", kinds[n, steps], loss=loss) for d, n, steps, loss in drawn]
    one, other = bench_in_a_round(), bench_in_a_round()
    run = together(one, stored)
    assert run is not None
    entries = singly(other, stored)
    assert list(run.entries) == entries
    texts = [canonical_json(entry.body.model_dump(mode="json")) for entry in entries]
    written = run.written(other.now_ns)
    assert bodies(written) == texts
    assert written.blobs is not None
    digests = [text.strip('"') for text in written.columns[written.blobs]]
    assert digests == [entry.body.blobs[0] for entry in entries]
    assert written.devices == tuple(entry.device for entry in entries)
    parts = write_state(one.core.state), write_state(other.core.state)
    assert {name for name in parts[0] if parts[0][name] != parts[1][name]} <= {"devices", "keys"}


def _closed(bench: RoundBench) -> None:
    for number in range(1, DEVICES + 1):
        bench.decline(f"dev-{number}")
    bench.wait(0)


UNUSUAL: dict[str, Callable[[RoundBench], object]] = {
    "late": _closed,
    "answered before": lambda bench: bench.answer("dev-2"),
    "nothing before": lambda bench: bench.decline("dev-2"),
    "retired": lambda bench: bench.command(RetireDevice(device=DeviceId("dev-2"), reason="gone")),
    "on its way": lambda bench: bench.message("dev-2", update_of(1, "dev-2")),
}


@pytest.mark.parametrize("change", UNUSUAL.values(), ids=list(UNUSUAL))
def test_what_may_come_to_something_else_is_decided_alone(
    change: Callable[[RoundBench], object],
) -> None:
    bench, said = bench_in_a_round(), like()
    stored = [answer("dev-1", said), answer("dev-2", said)]
    assert bench.core.intake.answers(stored) is not None
    change(bench)
    assert bench.core.intake.answers(stored) is None


SAW = Observation(images=1, entropy=0.5, transition=False)
OTHER: dict[str, StoredAnswer] = {
    "a stranger": answer("stranger", like()),
    "twice": answer("dev-1", like(), "again"),
    "of another class": answer("dev-2", like(samples={"bird": 3})),
    "of another network": answer("dev-2", like(lineage=Digest.of(b"other"))),
    "of another phase": answer(
        "dev-2", like(round=RoundAnswer(number=1, phase="other", samples=3, steps=1, seconds=0.0))
    ),
    "with samples that do not fit": answer("dev-2", like(samples={"cat": 4})),
    "too large": answer("dev-2", like().model_copy(update={"payload_bytes": 1 << 40})),
    "with what it saw": answer(
        "dev-2",
        like(round=RoundAnswer(number=1, samples=3, steps=1, seconds=0.0, observation=SAW)),
    ),
    "to another round": answer(
        "dev-2", update_of(2, "dev-2", round=RoundAnswer(number=2, samples=3, steps=1, seconds=0.0))
    ),
}


@pytest.mark.parametrize("other", OTHER.values(), ids=list(OTHER))
def test_one_unusual_answer_has_all_decided_alone(other: StoredAnswer) -> None:
    bench = bench_in_a_round()
    stored = [answer("dev-1", like()), other]
    assert bench.core.intake.answers(stored) is None
    assert bench.core.intake.answers(stored[:1]) is not None
