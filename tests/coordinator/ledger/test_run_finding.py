"""Finding runs among drafts: whatever is found, the ledger is that of the drafts."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fleetledger.coordinator.ledger.entries import EntryDraft, settled
from fleetledger.coordinator.ledger.run_finding import LEAST, in_runs
from fleetledger.coordinator.ledger.runs import EntryRun
from fleetledger.coordinator.ledger.store import Ledger
from fleetledger.schemas.values import DeviceId, Digest
from tests.coordinator.ledger.test_runs import KIND, TIME_NS

TEXTS = st.text(st.sampled_from('a1":,[]{}\\ %\n\u2028é'), max_size=6)
VALUES = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(-9, 9), TEXTS)
NESTED = st.recursive(
    VALUES, lambda below: st.lists(below, max_size=3) | st.dictionaries(TEXTS, below, max_size=3)
)


def answer(number: int, body: dict[str, object], blobs: tuple[Digest, ...] = ()) -> EntryDraft:
    device, payload = DeviceId(f"device-{number:03}"), Digest.of(b"%d" % number)
    whole = {"loss": number / 3, "payload": payload, "replaces": None, **body}
    return settled(EntryDraft(KIND, device, whole, device, blobs or (payload,), TIME_NS))


def lengths(drafts: list[EntryDraft]) -> list[int]:
    """How many entries each of what becomes of drafts has: 0 for one by itself."""
    return [len(one) if isinstance(one, EntryRun) else 0 for one in in_runs(drafts)]


@given(
    fixed=st.dictionaries(TEXTS, NESTED, max_size=4),
    others=st.lists(st.tuples(st.integers(0, 59), TEXTS, NESTED), max_size=3),
)
@settings(max_examples=60, deadline=None)
def test_the_ledger_is_that_of_the_drafts(
    tmp_path_factory: pytest.TempPathFactory,
    fixed: dict[str, object],
    others: list[tuple[int, str, object]],
) -> None:
    folder = tmp_path_factory.mktemp("found")
    different = {number: {key: value} for number, key, value in others}
    drafts = [answer(number, {"fixed": fixed, **different.get(number, {})}) for number in range(60)]
    alone = Ledger.open(folder / "a", clock=lambda: 1)
    other = Ledger.open(folder / "b", clock=lambda: 1)
    with alone, other:
        alone.append(drafts)
        other.append(in_runs(drafts))
        assert other.root == alone.root
        assert list(other.entries()) == list(alone.entries())


def test_answers_of_one_form_are_a_run() -> None:
    assert lengths([answer(n, {"samples": {"a": n, "b,1": 2}}) for n in range(40)]) == [40]


def test_few_answers_are_none() -> None:
    assert lengths([answer(n, {}) for n in range(LEAST - 1)]) == [0] * (LEAST - 1)
    assert lengths([answer(n, {}) for n in range(LEAST)]) == [LEAST]


def test_one_of_another_form_ends_a_run() -> None:
    drafts = [answer(n, {"more": 1} if n == 20 else {}) for n in range(50)]
    assert lengths(drafts) == [20, 0, 29]


@pytest.mark.parametrize(
    "more",
    [
        {"kind": "device.evaluated"},
        {"actor": "operator"},
        {"device": None},
        {"time_ns": None},
        {"blobs": (Digest.of(b"another"),)},
        {"blobs": (Digest.of(b"0"), Digest.of(b"1"))},
        {"body": {"loss": 1.0, "payload": Digest.of(b"0"), "replaces": 7}},
    ],
)
def test_what_cannot_be_in_a_run_is_in_none(more: dict[str, object]) -> None:
    drafts = [answer(n, {}) for n in range(20)]
    drafts = [answer(number, {})._replace(text=None, **more) for number in range(20)]  # type: ignore[arg-type]
    assert lengths(drafts) == [0] * 20
    assert not any(lengths(list(map(settled, drafts))))


def test_one_payload_of_many_devices_is_their_blob(tmp_path: Path) -> None:
    same = Digest.of(b"same")
    drafts = [answer(n, {"payload": same}, blobs=(same,)) for n in range(20)]
    with Ledger.open(tmp_path / "ledger.db") as ledger:
        ledger.append(in_runs(drafts), pruned={same: 4})
        assert ledger.runs.unkept(same) == 4
        assert all(entry.blobs == (same,) for entry in ledger.entries())
