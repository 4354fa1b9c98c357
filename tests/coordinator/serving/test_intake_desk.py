"""Taking payloads in, with a real store and workshop and a fetcher that the test drives."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from coordinator.core.inputs import PayloadMissing, PayloadStored
from coordinator.core.work import TakePayload
from coordinator.ledger.blobs import BlobStore
from coordinator.making.workshop import Finished, Workshop
from coordinator.serving.intake_desk import IntakeDesk
from schemas.offers import Offer
from schemas.values import ClassName, DeviceId
from tests.coordinator.core.harness import BACKBONE, contribution
from transport.block_source import BlockSource

PAYLOAD = b"statistics " * 10_000
DEVICE = DeviceId("dev-1")


class HandDrivenFetcher:
    """Fetches when the test says so."""

    def __init__(self) -> None:
        self.under_way: list[tuple[Future[Path], Path]] = []

    def fetch(
        self, offer: Offer, destination: Path, peer: DeviceId, *, seconds: float
    ) -> Future[Path]:
        future: Future[Path] = Future()
        self.under_way.append((future, destination))
        return future

    def arrive(self) -> None:
        """Write every file that is awaited, then say that all have come."""
        for _, destination in self.under_way:
            destination.write_bytes(PAYLOAD)
        for future, destination in self.under_way:
            future.set_result(destination)


@pytest.fixture
def workshop() -> Iterator[Workshop]:
    made = Workshop(lambda: None)
    yield made
    made.stop()


def check(_method: str, _settings: Mapping[str, Any], _payload: bytes) -> Mapping[ClassName, int]:
    return {ClassName("cat"): 3}


def results_of(workshop: Workshop, number: int) -> list[Finished]:
    found: list[Finished] = []
    end = time.monotonic() + 300
    while len(found) < number:
        assert time.monotonic() < end, f"{len(found)} of {number} results came"
        found += workshop.results()
    return found


def no_answers(request: TakePayload, _payload: bytes) -> None:
    raise AssertionError(f"{request.device} answers no round here")


def test_a_payload_offered_twice_at_once_is_taken_in_once(
    tmp_path: Path, workshop: Workshop
) -> None:
    """A device that is born again offers again while the first fetch is still under way."""
    store, fetcher = BlobStore(tmp_path / "blobs"), HandDrivenFetcher()
    desk = IntakeDesk(fetcher, workshop, store, tmp_path / "incoming", check, no_answers)
    offered = contribution(PAYLOAD.decode(), offer=BlockSource(PAYLOAD).offer)
    request = TakePayload(DEVICE, offered, b"", BACKBONE)
    desk.take([request])
    desk.take([request])
    fetcher.arrive()
    happenings = [finished.happening for finished in results_of(workshop, 2)]
    assert {type(happening) for happening in happenings} == {PayloadStored, PayloadMissing}
    assert store.get(offered.payload) == PAYLOAD
    assert list((tmp_path / "incoming").iterdir()) == []


def test_a_payload_that_the_disk_does_not_take_is_asked_for_again(
    tmp_path: Path, workshop: Workshop
) -> None:
    store, fetcher = BlobStore(tmp_path / "blobs"), HandDrivenFetcher()
    (tmp_path / "blobs").mkdir()
    (tmp_path / "blobs" / "incoming").touch()  # where a folder should be
    desk = IntakeDesk(fetcher, workshop, store, tmp_path / "incoming", check, no_answers)
    offered = contribution(PAYLOAD.decode(), offer=BlockSource(PAYLOAD).offer)
    desk.take([TakePayload(DEVICE, offered, b"", BACKBONE)])
    fetcher.arrive()
    (finished,) = results_of(workshop, 1)
    assert isinstance(finished.happening, PayloadMissing)
    assert "cannot be written" in finished.happening.reason
