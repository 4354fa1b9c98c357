"""What orders had devices fetch, from entries written by hand."""

from collections import Counter
from collections.abc import Mapping

import pytest

from fleetledger.coordinator.core.entry import EntryBody
from fleetledger.coordinator.models.file_offers import offer_of
from fleetledger.coordinator.topics.rounds.entries import (
    CohortContinued,
    RoundOpened,
    WeightsAveraged,
)
from fleetledger.methods.descriptor import Descriptor
from fleetledger.schemas.values import ClassName, DeviceId, Digest
from fleetledger.simulator.engines import fetched_files
from fleetledger.simulator.engines.fetched_files import FetchedFiles
from tests.coordinator.core.round_bench import NETWORK
from tests.simulator.engines.hand_made import HandMadeLedger

A, B = DeviceId("a"), DeviceId("b")
WEIGHTS, LATER, SHARED, ENSEMBLE = (bytes([n]) * size for n, size in enumerate((400, 401, 90, 30)))
DESCRIPTOR = Descriptor(
    name="phased",
    title="",
    citation="",
    payload_kinds=("weights",),
    needs={},
    kinds_of_phases={"share": "images", "train": "logits"},
    trains=True,
)


@pytest.fixture(autouse=True)
def _a_method_with_phases(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetched_files, "descriptor", lambda _: DESCRIPTOR)


def opened(number: int, phase: str, weights: bytes, **extras: bytes) -> RoundOpened:
    return RoundOpened(
        number=number,
        phase=phase,
        stage=1,
        round_of_stage=number,
        rounds_of_stage=5,
        cohort=(A, B),
        weights=offer_of(weights),
        weights_class_names=(),
        class_names=(ClassName("cat"),),
        extras={name.replace("_", "-"): offer_of(data) for name, data in extras.items()},
        seed=1,
        deadline_seconds=1.0,
    )


def averaged(number: int, phase: str, weights: bytes, **extras: bytes) -> WeightsAveraged:
    return WeightsAveraged(
        number=number,
        phase=phase,
        lineage=Digest.of(b"lineage"),
        inputs=(0,),
        class_names=(),
        aggregate=Digest.of(b"sum"),
        weights=offer_of(weights),
        extras={name.replace("_", "-"): offer_of(data) for name, data in extras.items()},
        samples=1,
        client_drift=0.0,
        fingerprint={},
        seconds=0.0,
    )


STAGE = (
    opened(1, "share", WEIGHTS),
    averaged(1, "share", WEIGHTS, shared=SHARED),
    opened(2, "train", WEIGHTS, shared=SHARED),
    averaged(2, "train", WEIGHTS, shared=SHARED, ensemble=ENSEMBLE),
    opened(3, "distil", WEIGHTS, shared=SHARED, ensemble=ENSEMBLE),
    averaged(3, "distil", LATER, shared=SHARED, old_model=WEIGHTS),
    opened(4, "train", LATER, shared=SHARED, old_model=WEIGHTS),
)
"""Devices share images, exchange logits and distil."""


def fetched(*bodies: EntryBody) -> Mapping[tuple[DeviceId, int], Counter[str]]:
    """What `FetchedFiles` reads of a ledger that begins with a network."""
    ledger = HandMadeLedger()
    ledger.write(NETWORK)
    for body in bodies:
        ledger.write(body)
    return FetchedFiles(ledger.reader).read(0, len(bodies) + 1)


def test_bytes_are_counted_by_the_kind_of_the_phase_and_each_file_once() -> None:
    assert fetched(*STAGE)[A, 1] == {"weights": 400 + 401, "images": 90, "logits": 30}


def test_a_new_stage_has_its_files_fetched_again() -> None:
    later = opened(5, "train", LATER, shared=SHARED).model_copy(update={"stage": 2})
    found = fetched(*STAGE, later)
    assert found[B, 2] == {"weights": 401, "images": 90}
    assert found[B, 1] == {"weights": 400 + 401, "images": 90, "logits": 30}


def test_what_one_stage_gave_is_of_its_kind_in_the_next() -> None:
    ledger = HandMadeLedger()
    for body in (NETWORK, *STAGE):
        ledger.write(body)
    files, end = FetchedFiles(ledger.reader), len(STAGE) + 1
    assert files.read(0, end)
    later = opened(5, "train", LATER, ensemble=ENSEMBLE).model_copy(update={"stage": 2})
    ledger.write(later)
    assert files.read(end, end + 1) == {
        (name, 2): {"weights": 401, "logits": 30} for name in (A, B)
    }


def test_whom_a_round_asks_in_a_further_entry_fetches_its_files() -> None:
    first = opened(1, "train", WEIGHTS).model_copy(update={"cohort": (A,)})
    more = CohortContinued(number=1, cohort=(), observers=(B,))
    assert fetched(first, more) == {(name, 1): {"weights": 400} for name in (A, B)}


def test_an_extra_that_nobody_gave_in_the_stage_is_an_old_model_unless_it_is_shared_images() -> (
    None
):
    found = fetched(opened(9, "train", LATER, shared=SHARED, old_model=WEIGHTS))
    assert found[A, 1] == {"weights": 400 + 401, "images": 90}
