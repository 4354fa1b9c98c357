"""What devices sent and received of each kind, from entries written by hand."""

from typing import Any

import pytest

from fleetledger.coordinator.models.file_offers import offer_of
from fleetledger.coordinator.topics.contributions.entries import ContributionAccepted
from fleetledger.coordinator.topics.lineages.entries import NetworkImported
from fleetledger.coordinator.topics.rounds.entries import RoundOpened, WeightsAveraged
from fleetledger.coordinator.topics.stages.entries import StageOpened
from fleetledger.methods.descriptor import Descriptor
from fleetledger.schemas.contributions import PartKey
from fleetledger.schemas.rounds import RoundAnswer
from fleetledger.schemas.values import ClassName, DeviceId, Digest
from fleetledger.simulator.engines import traffic_by_kind
from fleetledger.simulator.engines.traffic_by_kind import KindTrafficCount

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
    monkeypatch.setattr(traffic_by_kind, "descriptor", lambda _: DESCRIPTOR)


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


def averaged(number: int, weights: bytes, **extras: bytes) -> WeightsAveraged:
    return WeightsAveraged(
        number=number,
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


def accepted(number: int, kind: str, size: int, samples: int) -> ContributionAccepted:
    return ContributionAccepted(
        key=PartKey(stage=1, part=number),
        revision=0,
        payload_kind=kind,
        payload=Digest.of(b"payload"),
        payload_bytes=size,
        samples={},
        method="phased",
        lineage=Digest.of(b"lineage"),
        round=number,
        answer=RoundAnswer(number=number, samples=samples, steps=1, seconds=0.0),
    )


def a_stage_with_phases() -> list[tuple[Any, DeviceId | None]]:
    """Return a stage in which devices share images, exchange logits and distil."""
    return [
        (opened(1, "share", WEIGHTS), None),
        (accepted(1, "images", 50, samples=8), A),
        (averaged(1, WEIGHTS, shared=SHARED), None),
        (opened(2, "train", WEIGHTS, shared=SHARED), None),
        (accepted(2, "logits", 16, samples=100), A),
        (accepted(2, "logits", 17, samples=90), B),
        (averaged(2, WEIGHTS, shared=SHARED, ensemble=ENSEMBLE), None),
        (opened(3, "distil", WEIGHTS, shared=SHARED, ensemble=ENSEMBLE), None),
        (accepted(3, "weights", 300, samples=100), A),
        (averaged(3, LATER, shared=SHARED, old_model=WEIGHTS), None),
        (opened(4, "train", LATER, shared=SHARED, old_model=WEIGHTS), None),
    ]


def counted(entry_list: list[tuple[Any, DeviceId | None]]) -> KindTrafficCount:
    network = NetworkImported.model_construct(method="phased")
    count = KindTrafficCount()
    for body, device in [(network, None), *entry_list]:
        count.apply(body, device)
    return count


def test_bytes_are_counted_by_the_kind_of_the_phase_and_each_file_once():
    found = counted(a_stage_with_phases()).of(A, (1,))
    assert found.sent == {"images": 50, "logits": 16, "weights": 300}
    assert found.received == {"weights": 400 + 401, "images": 90, "logits": 30}


def test_images_are_counted_where_images_were_sent():
    count = counted(a_stage_with_phases())
    assert count.of(A, (1,)).shared_images == 8
    assert count.of(B, (1,)).shared_images == 0
    assert count.of(A, (2,)).sent == {}


def test_a_new_stage_has_its_files_fetched_again():
    again = StageOpened(stage=2, class_names=(), reason="operator")
    later = opened(5, "train", LATER, shared=SHARED).model_copy(update={"stage": 2})
    count = counted([*a_stage_with_phases(), (again, None), (later, None)])
    assert count.of(B, (2,)).received == {"weights": 401, "images": 90}
    assert count.of(B, (1, 2)).received == {"weights": 400 + 2 * 401, "images": 180, "logits": 30}


def test_an_extra_that_nobody_gave_in_the_stage_is_an_old_model_unless_it_is_shared_images():
    count = counted([(opened(9, "train", LATER, shared=SHARED, old_model=WEIGHTS), None)])
    assert count.of(A, (1,)).received == {"weights": 400 + 401, "images": 90}
