"""Contributions as they are asked for: when they came, what became of them, what models have."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path

import pytest

from fleetledger.coordinator.core.entry import EntryBody
from fleetledger.coordinator.core.work import SolveHead
from fleetledger.coordinator.ledger.reader import ledger_of
from fleetledger.coordinator.reports.contributions import (
    ContributionFilter,
    by_state,
    contributors,
    given,
    over_time,
)
from fleetledger.coordinator.topics.contributions.entries import (
    ContributionAccepted,
    ContributionRetracted,
    ContributionsCountedIn,
    ContributionsLeftOut,
    ContributionsSetAside,
    ContributionWithdrawn,
    EarlierSettled,
    JudgedPart,
    PartBounds,
)
from fleetledger.coordinator.topics.contributions.state import CountedParts
from fleetledger.schemas.contributions import Part, PartKey, Withdrawal
from fleetledger.schemas.values import BootId, DeviceId, Digest
from tests.coordinator.core.harness import (
    BACKBONE,
    Bench,
    contribution,
    exported,
    names,
    solved,
)
from tests.coordinator.reports.test_views import RULES, write

MINUTE = 60 * 10**9


@pytest.mark.parametrize("device", [None, "dev-1", "dev-2", "nobody"])
def test_contributions_are_counted_by_hour(tmp_path: Path, device: str | None) -> None:
    bench = Bench(RULES, now_ns=1000 * MINUTE)
    bench.begin("dev-1", "dev-2")
    for number, minutes in enumerate((0, 5, 61, 70, 130, 250)):
        bench.now_ns = (1000 + minutes) * MINUTE
        bench.give(f"dev-{1 + number % 2}", contribution(f"part {number}", part=number))
    write(tmp_path, bench)
    wanted, now_ns = ContributionFilter(device=device), 1260 * MINUTE
    with ledger_of(tmp_path) as ledger:
        found = over_time(ledger, wanted, now_ns, 60 * MINUTE, 5)
        slowly = Counter(one.time_ns // (60 * MINUTE) for one in given(ledger, wanted, 100))
    assert found.first_ns == 17 * 60 * MINUTE
    assert found.counts == tuple(slowly[hour] for hour in (17, 18, 19, 20, 21))
    assert sum(found.counts) == (0 if device == "nobody" else 4 if device is None else 2)


CAT, DOG = names("cat", "dog")
DEVICES = ("dev-1", "dev-2", "dev-3")
BOUNDS = PartBounds(residual=1, pull=1, move=1, move_from_devices=2)
ENDS = ("replaced", "withdrawn", "retracted")
INSTALLATIONS = tuple(BootId.fresh() for _ in range(2))


@dataclass
class GivenHistory:
    """Contributions of every end, at random; what became of each, told as it happened."""

    seed: int
    ends: dict[int, tuple[str, int | None]] = field(default_factory=dict)
    made: dict[int, set[int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.chosen, self.bench = random.Random(self.seed), Bench(RULES)
        self.bench.begin(*DEVICES)
        for _ in range(250):
            self.step()

    @property
    def counted(self) -> CountedParts:
        return self.bench.core.state.contributions.counted

    def say(self, body: EntryBody, device: str | None = None) -> int:
        index, name = self.bench.core.state.size, None if device is None else DeviceId(device)
        self.bench.core.state.apply(body, name, self.bench.now_ns)
        self.bench.entries.append((body, name, self.bench.now_ns))
        return index

    def accept(self, device: str, key: PartKey, replaces: int | None = None) -> None:
        body = ContributionAccepted(
            part=Part(
                key=key,
                revision=self.bench.core.state.size,
                payload_kind="statistics",
                payload=Digest.of(str(self.bench.core.state.size).encode()),
                payload_bytes=self.chosen.randrange(1, 99),
                samples={name: self.chosen.randrange(1, 9) for name in (CAT, DOG)},
                method="stsa",
                lineage=BACKBONE.frozen.digest,
            ),
            replaces=replaces,
            installation=self.chosen.choice(INSTALLATIONS),
        )
        self.ends[self.say(body, device)] = ("held", None)

    def step(self) -> None:
        draw, held = self.chosen.random(), sorted(self.counted)
        if draw < 0.4 or not held:
            key = PartKey(stage=self.chosen.randrange(1, 3), part=self.bench.core.state.size)
            self.accept(self.chosen.choice(DEVICES), key)
            return
        part = self.chosen.choice(held)
        item, now = self.counted[part], self.bench.core.state.size
        device, key = item.device, item.key
        if draw < 0.5:
            self.ends[part] = ("replaced", now)
            self.accept(device, key, part)
        elif draw < 0.6:
            self.ends[part] = ("withdrawn", now)
            withdrawal = Withdrawal(key=key, revision=now, reason="gone")
            self.say(ContributionWithdrawn(withdrawal=withdrawal, replaces=part), device)
        elif draw < 0.65:
            self.ends[part] = ("retracted", now)
            said = {"device": device, "key": key, "revision": now, "payload": item.payload}
            self.say(ContributionRetracted(**said, reason="broken", replaces=part))
        elif draw < 0.75:
            out = part not in self.counted.left_out
            moved = {"left_out": (part,)} if out else {"left_out": (), "again": (part,)}
            self.say(ContributionsLeftOut(**moved, devices={device: "too much" if out else ""}))
        elif draw < 0.85:
            self.move_aside(part, now)
        elif draw < 0.9:
            given = self.bench.core.state.contributions.of(device)
            kept = self.chosen.random() < 0.3
            for one in given.earlier(INSTALLATIONS[0]).values():
                self.ends[one.index] = ("held", None) if kept else ("withdrawn", now)
            self.say(EarlierSettled(device=device, installation=INSTALLATIONS[0], kept=kept))
        else:
            version = len(self.made) + 1
            self.made[version] = {*self.bench.core.state.contributions.inputs()}
            self.say(solved(SolveHead(version, BACKBONE, now, (CAT, DOG), {})))
            self.say(exported(version))

    def move_aside(self, part: int, now: int) -> None:
        device, aside = self.counted[part].device, part in self.counted.set_aside
        judged = JudgedPart(device=device, indices=(part,), residual=2, pull=2, move=2)
        if aside and self.chosen.random() < 0.5:
            self.say(ContributionsCountedIn(device=device, indices=(part,)))
            return
        moved = {"set_aside": () if aside else (judged,), "again": (judged,) if aside else ()}
        lineage = BACKBONE.frozen.digest
        self.say(
            ContributionsSetAside(lineage=lineage, ledger_size=now, since=0, bounds=BOUNDS, **moved)
        )


@pytest.mark.parametrize("seed", range(3))
def test_what_became_of_each_and_what_models_have_is_what_happened(
    tmp_path: Path, seed: int
) -> None:
    history = GivenHistory(seed)
    write(tmp_path, history.bench)
    counted = history.counted
    with ledger_of(tmp_path) as ledger:
        every = given(ledger, ContributionFilter(), 1000)
        assert {one.index: (one.state, one.left_index) for one in every} == history.ends
        for version, inputs in history.made.items():
            wanted = ContributionFilter(model=version)
            assert {one.index for one in given(ledger, wanted, 1000)} == inputs
            assert contributors(ledger, version) == len(
                {one.device for one in every if one.index in inputs}
            )
            assert sum(one.count for one in by_state(ledger, wanted).values()) == len(inputs)
        for device, stage, state in product((None, *DEVICES), (None, 1, 2), (None, *ENDS)):
            wanted = ContributionFilter(device=device, stage=stage, state=state, before=200)
            asked = [
                one for one in every if device in {None, one.device} and stage in {None, one.stage}
            ]
            found = [one for one in asked if state in {None, one.state} and one.index < 200]
            assert given(ledger, wanted, 7) == found[:7]
            sums = {
                name: (
                    sum(one.state == name for one in asked),
                    sum(one.samples for one in asked if one.state == name),
                    sum(one.payload_bytes for one in asked if one.state == name),
                )
                for name in {one.state for one in asked}
            }
            told = by_state(ledger, wanted)
            assert {
                name: (one.count, one.samples, one.payload_bytes) for name, one in told.items()
            } == sums
    assert {one.index for one in every if one.left_out} == {*counted.left_out, *counted.set_aside}
    assert {one.index for one in every if one.set_aside} == {*counted.set_aside}
    assert {state for state, _ in history.ends.values()} == {"held", *ENDS}
    assert history.made
