"""A year of cameras in a few days: nothing ends, and what is kept is what all parts give."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.speed.long_run.fleet import HOUR, Fleet
from benchmarks.speed.long_run.run import live
from fleetledger.coordinator.core.work import SolveHead
from fleetledger.coordinator.ledger.blobs import Blobs
from fleetledger.coordinator.models import kept_sums
from fleetledger.coordinator.models.model_maker import ModelMaker
from fleetledger.coordinator.topics.models.entries import ModelSolved


def test_whatever_happens_to_a_fleet_in_a_year_happens_in_nine_days(tmp_path: Path) -> None:
    found = live(9, 3, tmp_path)
    assert found["models"] > 9
    assert found["parts"] > 20
    assert len(found["start_seconds"]) == 4, "three starts and a restored backup"


@pytest.fixture
def fleet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Fleet:
    monkeypatch.setattr(kept_sums, "EVERY", 1)
    (tmp_path / "home").mkdir()
    found = Fleet(tmp_path / "home", 3)
    for hour in range(4):
        give(found, hour)
    return found


def give(fleet: Fleet, hour: int) -> None:
    fleet.clock.now = hour * HOUR
    fleet.give([(name, 5) for name in fleet.names])
    fleet.look()


def sums_of(fleet: Fleet) -> Path:
    return fleet.local.home / "ledger" / "sums"


def newest(fleet: Fleet) -> ModelSolved:
    return fleet.local.engine.core.state.models.all_learned[-1].solved


def test_after_a_start_only_newer_parts_are_added(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    fleet.restart()
    kept = max(int(path.stem) for path in sums_of(fleet).iterdir())
    read: list[object] = []
    get = Blobs.get

    def noted(self: Blobs, digest: object) -> bytes:
        read.append(digest)
        return get(self, digest)  # type: ignore[arg-type]

    monkeypatch.setattr(Blobs, "get", noted)
    version = newest(fleet).version
    give(fleet, 9)
    assert newest(fleet).version == version + 1
    counted = fleet.local.engine.core.state.contributions.counted
    assert len(counted) == 15
    older = {item.payload for index, item in counted.items() if index < kept}
    assert len(older) >= 9
    assert not older & set(read)
    assert aggregate_of_all(fleet) == newest(fleet).aggregate


def aggregate_of_all(fleet: Fleet) -> object:
    """Return the digest of the sum of all payloads, without what is kept."""
    local = fleet.local
    state, solved = local.engine.core.state, newest(fleet)
    assert state.lineages.backbone is not None
    request = SolveHead(
        version=solved.version,
        lineage=state.lineages.backbone,
        ledger_size=solved.ledger_size,
        class_names=solved.class_names,
        resolution=state.classes.resolution(),
    )
    made = ModelMaker(local.home, local.store).solve(request).happening
    assert isinstance(made, ModelSolved)
    return made.aggregate


@pytest.mark.parametrize("spoiled", ["signature", "sum", "key"])
def test_a_kept_sum_that_is_not_the_coordinators_own_is_not_read(
    fleet: Fleet, spoiled: str
) -> None:
    folder = sums_of(fleet)
    for path in folder.iterdir():
        head, _, data = path.read_bytes().partition(b"\n")
        if spoiled == "signature":
            head = head.replace(b'"signature":"', b'"signature":"0', 1)[:-3] + b'"}'
        elif spoiled == "sum":
            data = data[:-1] + b"?"
        path.write_bytes(head + b"\n" + data)
    if spoiled == "key":
        (fleet.local.home / "keys" / "coordinator.pem").rename(folder / "gone")
    fleet.restart()
    give(fleet, 9)
    assert aggregate_of_all(fleet) == newest(fleet).aggregate
