"""What is in a sum follows from the size of the ledger, and no step goes through the history."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pytest

from fleetledger.coordinator.core.entry import EntryContext
from fleetledger.coordinator.core.state import State, read_entry
from fleetledger.coordinator.ledger.entries import EntryDraft
from fleetledger.coordinator.ledger.reader import LedgerReader
from fleetledger.coordinator.ledger.store import Ledger
from fleetledger.coordinator.models.held_parts import HeldParts
from fleetledger.coordinator.paths import ledger_path
from fleetledger.coordinator.topics.contributions.entries import (
    ContributionAccepted,
    ContributionsLeftOut,
    ContributionWithdrawn,
)
from fleetledger.coordinator.topics.contributions.state import CountedParts
from fleetledger.schemas.contributions import Part, PartKey, Withdrawal, held_digest
from fleetledger.schemas.values import BootId, ClassName, DeviceId, Digest

LINEAGES = (Digest.of(b"one"), Digest.of(b"two"))
INSTALLATIONS = (BootId.fresh(), BootId.fresh())
STEPS = 300


def history(seed: int) -> list[EntryDraft]:
    """Parts that are given, replaced, taken out, left out and counted again, at random."""
    chosen = random.Random(seed)
    held: dict[int, tuple[DeviceId, PartKey, int]] = {}
    out: set[int] = set()
    drafts = []
    for index in range(STEPS):
        body: ContributionAccepted | ContributionWithdrawn | ContributionsLeftOut
        draw, former = chosen.random(), None
        device, key, revision = DeviceId(f"dev-{chosen.randrange(4)}"), None, 0
        if held and draw < 0.6:
            former = chosen.choice(sorted(held))
            device, key, revision = held[former]
        if former is not None and draw < 0.2:
            moved = (former,)
            again = former in out
            (out.discard if again else out.add)(former)
            body = ContributionsLeftOut(
                left_out=() if again else moved, again=moved if again else (), devices={}
            )
            drafts.append(EntryDraft(body.kind, "test", body.model_dump(mode="json"), None))
            continue
        if former is not None:
            del held[former]
            out.discard(former)
        if former is not None and draw < 0.3:
            assert key is not None
            withdrawal = Withdrawal(key=key, revision=revision + 1, reason="gone")
            body = ContributionWithdrawn(withdrawal=withdrawal, replaces=former)
        else:
            key = key or PartKey(stage=1 + chosen.randrange(3), part=index)
            held[index] = device, key, revision + 1
            body = ContributionAccepted(
                part=Part(
                    key=key,
                    revision=revision + 1,
                    payload_kind="statistics",
                    payload=Digest.of(str(chosen.randrange(100)).encode()),
                    payload_bytes=1,
                    samples={ClassName(f"class {chosen.randrange(5)}"): 1 + chosen.randrange(9)},
                    method="stsa",
                    lineage=chosen.choice(LINEAGES),
                ),
                replaces=former,
                installation=chosen.choice((None, *INSTALLATIONS)),
            )
        drafts.append(EntryDraft(body.kind, "test", body.model_dump(mode="json"), device))
    return drafts


def slowly(counted: CountedParts, lineage: Digest) -> tuple[set[int], dict[str, int]]:
    """Return what is in a sum and how many parts have a name, by going through all parts."""
    parts = {i for i, item in counted.items() if item.lineage == lineage} - counted.left_out.keys()
    names: dict[str, int] = {}
    for index in parts:
        for name in counted[index].samples:
            names[name] = names.get(name, 0) + 1
    return parts, names


@pytest.mark.parametrize("seed", range(3))
def test_what_is_kept_of_a_sum_is_what_all_parts_say(seed: int) -> None:
    state, before = State(), {lineage: slowly(CountedParts(), lineage) for lineage in LINEAGES}
    counted = state.contributions.counted
    for draft in history(seed):
        state.apply(read_entry(draft.kind, draft.body), draft.device, 0)
        for lineage in LINEAGES:
            found, kept = slowly(counted, lineage), counted.sum_of(lineage)
            assert (kept.parts, kept.names) == (len(found[0]), found[1])
            samples = Counter[DeviceId]()
            for index in found[0]:
                samples[counted[index].device] += sum(counted[index].samples.values())
            assert kept.samples == samples
            for device in {item.device for item in counted.values()}:
                whole = {i for i, item in counted.items() if item.device == device}
                whole = {i for i in whole if counted[i].lineage == lineage}
                assert set(counted.of_device(device, lineage)) == whole
            if found != before[lineage]:
                assert kept.changed == state.size - 1
            before[lineage] = found
        for start in (0, state.size // 2, state.size - 1):
            came = {i for i in counted if counted.returned.get(i, i) >= start}
            assert sorted(counted.since(start)) == sorted(came)
        for given in state.contributions.by_device.values():
            for installation in (None, *INSTALLATIONS):
                own = held_digest(given.own_parts(installation))
                assert given.own_digest(installation) == own
            assert given.next_part == max(key.part for key in given.parts) + 1
        several: dict[tuple[DeviceId, Digest], set[int]] = {}
        for index, item in counted.items():
            several.setdefault((item.device, item.payload), set()).add(index)
        assert counted.copies == {key: found for key, found in several.items() if len(found) > 1}
        assert counted.payloads.keys() == several.keys()


def test_the_sum_at_a_size_is_the_same_in_one_step_and_in_many(tmp_path: Path) -> None:
    """A step names every part that moved meanwhile, and reads nothing else."""
    (tmp_path / "ledger").mkdir()
    chosen = random.Random(4)
    with Ledger.open(ledger_path(tmp_path)) as ledger:
        ledger.append(history(7))
    with LedgerReader.open_read_only(ledger_path(tmp_path)) as reader:
        step_by_step = HeldParts()
        sizes = sorted(chosen.sample(range(1, STEPS + 1), 25))
        for size in sizes:
            former = slowly(step_by_step.counted, LINEAGES[0])[0]
            at_once = HeldParts()
            moved = step_by_step.follow(reader, size)
            at_once.follow(reader, size)
            now = slowly(step_by_step.counted, LINEAGES[0])[0]
            assert now == slowly(at_once.counted, LINEAGES[0])[0]
            assert former ^ now <= moved
        with pytest.raises(ValueError, match="begin anew"):
            step_by_step.follow(reader, sizes[0])


def test_an_entry_of_something_else_moves_nothing() -> None:
    held = HeldParts()
    body = ContributionsLeftOut(left_out=(), devices={})
    assert held.apply_body(body, EntryContext(5)) == ()
    assert held.size == 6
