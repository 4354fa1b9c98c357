"""Parts that move the others too far, or that no samples have, wait for the operator by name."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fleetledger.coordinator.core.rules import BoundRules
from fleetledger.coordinator.ledger.reader import ledger_of
from fleetledger.coordinator.paths import blob_folder
from fleetledger.coordinator.replay.overlay_store import KeepingStore
from fleetledger.coordinator.replay.recipes import JudgedRecipe, everything
from fleetledger.coordinator.replay.remaker import Remaking
from fleetledger.coordinator.reports.contributions import ContributionFilter, given
from fleetledger.coordinator.topics.contributions.commands import CountIn
from fleetledger.coordinator.topics.contributions.entries import ContributionsSetAside
from fleetledger.coordinator.topics.contributions.views import set_aside_in
from fleetledger.learning.numerics.exact_sum import ScaledIntegers
from fleetledger.learning.numerics.triangles import pack_upper
from fleetledger.methods.stsa import coordinator as stsa
from fleetledger.methods.stsa.messages import LocalStatistics, encode_statistics
from fleetledger.schemas.contributions import Contribution
from fleetledger.schemas.presence import Welcome
from fleetledger.schemas.receipts import Receipt
from fleetledger.schemas.values import ClassName, DeviceId, Digest
from fleetledger.transport.memory import InMemoryBroker
from tests.coordinator.program.test_one_device_costs_the_others_little import (
    CLASSES,
    HONEST,
    WIDTH,
    samples,
)
from tests.coordinator.shell_harness import (
    RULES,
    MemoryCoordinator,
    ScriptedDevice,
    contribution_of,
    write_home,
)

LIAR = "dev-5"


class SmallFleet:
    """Four honest devices that have given a part each, and a fifth one."""

    def __init__(self, home: Path, bounds: BoundRules) -> None:
        write_home(home, map_width=WIDTH, form="exact")
        broker = InMemoryBroker()
        rules = RULES.model_copy(update={"bounds": bounds})
        self.home, self.coordinator = home, MemoryCoordinator(home, broker, rules)
        self.coordinator.begin(*HONEST, LIAR, classes=CLASSES)
        names = (*HONEST, LIAR)
        self.devices = {name: ScriptedDevice(name, broker, self.coordinator) for name in names}
        for device in self.devices.values():
            device.born()
            device.wait_for(Welcome)
        for number, name in enumerate(HONEST):
            self.give(name, contribution_of(self.coordinator, *samples(number, 100)))

    def give(self, name: str, given: tuple[Contribution, bytes]) -> None:
        self.devices[name].give(*given)
        self.devices[name].wait_for(Receipt)

    def solved(self) -> int:
        """Wait until a model of all that counts is exported; return its contributions."""
        state = self.coordinator.engine.core.state

        def settled() -> int:
            newest, given = state.models.newest, state.contributions
            if newest is None or newest.exported is None or state.stages.open is not None:
                return 0
            idle = given.unchanged_since(newest.solved.ledger_size)
            return newest.solved.contributions if idle and len(given.counted) == 5 else 0

        found = self.coordinator.until(settled)
        assert isinstance(found, int)
        return found

    def set_aside(self) -> list[ContributionsSetAside]:
        bodies = self.coordinator.engine.ledger.entries()
        kind = ContributionsSetAside.kind
        return [ContributionsSetAside(**item.body) for item in bodies if item.kind == kind]

    def replayed(self) -> dict[str, str]:
        """Return what a replay says of everything that was made."""
        with ledger_of(self.home) as ledger:
            remaking = Remaking(self.home, ledger, KeepingStore(blob_folder(self.home)))
            outcomes = [remaking.outcome(recipe) for recipe in everything(ledger)]
        return {outcome.what: outcome.state for outcome in outcomes}

    def judged_of_nobody(self) -> list[tuple[str, str]]:
        """Return what a replay says of entries that set aside parts, had they named none."""
        found = []
        with ledger_of(self.home) as ledger:
            remaking = Remaking(self.home, ledger, KeepingStore(blob_folder(self.home)))
            for recipe in everything(ledger):
                if isinstance(recipe, JudgedRecipe):
                    nobody = recipe.recorded.model_copy(update={"set_aside": ()})
                    outcome = remaking.outcome(replace(recipe, recorded=nobody))
                    found.append((outcome.state, outcome.detail.split("residual")[0]))
        return found

    def close(self) -> None:
        for device in self.devices.values():
            device.close()
        self.coordinator.close()


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[SmallFleet]:
    made = SmallFleet(tmp_path, BoundRules())
    yield made
    made.close()


@pytest.fixture
def believing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SmallFleet]:
    """A fleet that looks at no numbers, neither at intake nor before a solve."""
    monkeypatch.setattr(stsa, "check_statistics", lambda *_: None)
    never = BoundRules(max_residual=1e9, max_pull=1e9, max_move=1e9)
    made = SmallFleet(tmp_path, never)
    yield made
    made.close()


def far_off(fleet: SmallFleet) -> tuple[Contribution, bytes]:
    """Samples at the corners of their range, on which the others' model is sure of something."""
    centres = np.random.default_rng(7).normal(0, 1, (10, WIDTH))
    corners = np.where(np.roll(centres, -1, axis=0) > centres, 127, 0).astype(np.float32)
    return contribution_of(
        fleet.coordinator, np.repeat(corners, 5, axis=0), list(np.repeat(CLASSES, 5))
    )


def indefinite(fleet: SmallFleet) -> tuple[Contribution, bytes]:
    """One sample of zeros, with the largest entries of either sign beside it."""
    body, _ = contribution_of(fleet.coordinator, *samples(9, 1))
    signs = np.triu(np.random.default_rng(1).choice([-1, 1], (WIDTH, WIDTH)), 1) * 10**9
    gram = signs + signs.T + np.eye(WIDTH, dtype=np.int64)
    zeros, names = np.zeros((1, WIDTH), np.int64), tuple(map(ClassName, body.samples))
    told = LocalStatistics(
        names,
        np.ones(1, np.int64),
        ScaledIntegers(zeros),
        ScaledIntegers(pack_upper(gram).astype(np.int64)),
    )
    payload = encode_statistics(told)
    changed = {"payload": Digest.of(payload), "payload_bytes": len(payload)}
    return body.model_copy(update=changed), payload


def test_what_moves_the_others_too_far_waits_for_the_operator(fleet: SmallFleet) -> None:
    fleet.give(LIAR, far_off(fleet))
    assert fleet.solved() == 4
    (entry,) = fleet.set_aside()
    (part,) = entry.set_aside
    assert part.device == LIAR
    assert part.residual > 4 or part.pull > 1.8
    with ledger_of(fleet.home) as ledger:
        (row,) = set_aside_in(ledger)
        (line,) = given(ledger, ContributionFilter(device=LIAR), 10)
    assert (row.device, line.set_aside) == (LIAR, row.why)
    figures = f"residual {part.residual:g}, at most 4; pull {part.pull:g}, at most 1.8; move"
    assert figures in row.why
    assert "equal" in fleet.replayed().values()
    assert set(fleet.replayed().values()) == {"equal"}
    said = fleet.coordinator.command(CountIn(device=DeviceId(LIAR), reason="looked at"))
    assert said == "1 contribution of device dev-5 counted in"
    assert fleet.solved() == 5
    assert len(fleet.set_aside()) == 1, "the operator's word stands"
    with ledger_of(fleet.home) as ledger:
        assert set_aside_in(ledger) == []
        (line,) = given(ledger, ContributionFilter(device=LIAR), 10)
    assert (line.set_aside, line.left_out) == ("", False)


def test_a_replay_says_what_an_entry_should_have_set_aside(fleet: SmallFleet) -> None:
    fleet.give(LIAR, far_off(fleet))
    assert fleet.solved() == 4
    assert fleet.judged_of_nobody() == [("differs", "dev-5 gave what is judged, too: ")]


def test_a_solve_that_fails_names_whose_gram_matrix_is_none_with_a_proof(
    believing: SmallFleet,
) -> None:
    believing.give(LIAR, indefinite(believing))
    assert believing.solved() == 4
    (entry,) = believing.set_aside()
    assert [part.device for part in entry.set_aside] == [LIAR]
    assert entry.vector is not None
    replayed = believing.replayed()
    assert set(replayed.values()) == {"equal"}
    assert sum("set aside" in what for what in replayed) == 1
    ((state, said),) = believing.judged_of_nobody()
    assert (state, said[:32]) == ("differs", "the vector proves the same of en")


def test_honest_parts_all_count(fleet: SmallFleet) -> None:
    fleet.give(LIAR, contribution_of(fleet.coordinator, *samples(77, 100)))
    assert fleet.solved() == 5
    assert fleet.set_aside() == []
