"""Taking payloads in, with a real store and job runner and a fetcher that the test drives."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from fleetledger.coordinator.core.inputs import PayloadOutcome
from fleetledger.coordinator.core.work import TakePayload
from fleetledger.coordinator.ledger import folder_store
from fleetledger.coordinator.ledger.blobs import BlobStore
from fleetledger.coordinator.models.job_runner import Finished, Job, ThreadJobRunner
from fleetledger.coordinator.models.payload_check import PayloadVerdict, settings_digest
from fleetledger.coordinator.program.payload_intake import PayloadIntake
from fleetledger.runtime.problems import PATIENCE_SECONDS
from fleetledger.schemas.offers import Offer
from fleetledger.schemas.values import ClassName, DeviceId, Digest
from fleetledger.transport.block_source import BlockSource
from fleetledger.transport.errors import BlockError
from tests.coordinator.core.harness import BACKBONE, contribution

PAYLOAD = b"statistics " * 10_000
DEVICE = DeviceId("dev-1")


def outcome_of(finished: Finished) -> PayloadOutcome:
    assert isinstance(finished.happening, PayloadOutcome)
    return finished.happening


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
        waiting = [item for item in self.under_way if not item[0].done()]
        for _, destination in waiting:
            destination.write_bytes(PAYLOAD)
        for future, destination in waiting:
            future.set_result(destination)

    def fail(self, reason: str) -> None:
        """Let nothing come of what is awaited."""
        for future, _ in self.under_way:
            future.set_exception(BlockError(reason))


@pytest.fixture
def job_runner() -> Iterator[ThreadJobRunner]:
    made = ThreadJobRunner(lambda: None)
    yield made
    made.stop()


@pytest.fixture
def offer() -> TakePayload:
    """A payload that a device offers."""
    offered = contribution(PAYLOAD.decode(), offer=BlockSource(PAYLOAD).offer)
    return TakePayload(DEVICE, offered, b"", BACKBONE)


class PatientJobRunner(ThreadJobRunner):
    """Does what it has been handed when the test says so."""

    def __init__(self) -> None:
        super().__init__(lambda: None)
        self.jobs: list[Job] = []

    def payload_job(self, job: Job) -> None:
        self.jobs.append(job)

    def work(self) -> Finished:
        (job,) = self.jobs
        (finished,) = job()
        return finished


def check(_method: str, _settings: Mapping[str, Any], _payload: bytes) -> Mapping[ClassName, int]:
    return {ClassName("cat"): 3}


def results_of(job_runner: ThreadJobRunner, number: int) -> list[Finished]:
    found: list[Finished] = []
    end = time.monotonic() + 300
    while len(found) < number:
        assert time.monotonic() < end, f"{len(found)} of {number} results came"
        found += job_runner.results()
    return found


class NoAnswers:
    """Is asked nothing, since nobody answers a round here."""

    def check(self, request: TakePayload, _payload: bytes) -> None:
        raise AssertionError(f"{request.device} answers no round here")

    def add(self, request: TakePayload, _payload: bytes) -> None:
        raise AssertionError(f"{request.device} answers no round here")


def test_a_payload_offered_twice_at_once_is_taken_in_once(
    tmp_path: Path, job_runner: ThreadJobRunner, offer: TakePayload
) -> None:
    """A device that is born again offers again while the first fetch is still under way."""
    store, fetcher = BlobStore(tmp_path / "blobs"), HandDrivenFetcher()
    intake = PayloadIntake(fetcher, job_runner, store, tmp_path / "incoming", check, NoAnswers())
    intake.submit([offer])
    intake.submit([offer])
    fetcher.arrive()
    happenings = [outcome_of(finished) for finished in results_of(job_runner, 2)]
    assert {happening.ended for happening in happenings} == {"stored", "missing"}
    assert store.get(offer.contribution.payload) == PAYLOAD
    assert list((tmp_path / "incoming").iterdir()) == []


def test_a_payload_that_the_disk_does_not_take_is_asked_for_again(
    tmp_path: Path, job_runner: ThreadJobRunner, offer: TakePayload, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_folder: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(folder_store, "fsync_folder", refuse)
    store, fetcher = BlobStore(tmp_path / "blobs"), HandDrivenFetcher()
    intake = PayloadIntake(fetcher, job_runner, store, tmp_path / "incoming", check, NoAnswers())
    intake.submit([offer])
    fetcher.arrive()
    (finished,) = results_of(job_runner, 1)
    assert outcome_of(finished).ended == "missing"
    assert "cannot be written" in outcome_of(finished).reason
    (problem,) = intake.problems()
    assert problem.hinders
    assert "cannot be written" in problem.text
    monkeypatch.undo()
    intake.submit([offer])
    fetcher.arrive()
    results_of(job_runner, 1)
    assert list(intake.problems()) == []


def test_a_payload_that_does_not_come_is_a_problem_until_it_does(
    tmp_path: Path, job_runner: ThreadJobRunner, offer: TakePayload
) -> None:
    store, fetcher = BlobStore(tmp_path / "blobs"), HandDrivenFetcher()
    intake = PayloadIntake(fetcher, job_runner, store, tmp_path / "incoming", check, NoAnswers())
    intake.submit([offer])
    fetcher.fail("camera-1 sends no block")
    results_of(job_runner, 1)
    (problem,) = intake.problems()
    assert (problem.about, problem.patience) == ("payloads", PATIENCE_SECONDS)
    assert "sends no block" in problem.text
    intake.submit([offer])
    fetcher.arrive()
    results_of(job_runner, 1)
    assert list(intake.problems()) == []


def fetched(intake: PayloadIntake, fetcher: HandDrivenFetcher, offer: TakePayload) -> Path:
    """Have what is offered fetched; return where it lies until it is judged."""
    intake.submit([offer])
    fetcher.arrive()
    return fetcher.under_way[0][1]


def test_a_fetched_payload_is_moved_into_the_store_and_not_written_again(
    tmp_path: Path, offer: TakePayload
) -> None:
    store, fetcher, job_runner = (
        BlobStore(tmp_path / "blobs"),
        HandDrivenFetcher(),
        PatientJobRunner(),
    )
    intake = PayloadIntake(fetcher, job_runner, store, tmp_path / "incoming", check, NoAnswers())
    file = fetched(intake, fetcher, offer).stat().st_ino
    assert outcome_of(job_runner.work()).ended == "stored"
    held = store.local_path(offer.contribution.payload)
    assert held is not None
    assert held.stat().st_ino == file
    assert list((tmp_path / "incoming").iterdir()) == []
    assert store.get(offer.contribution.payload) == PAYLOAD


def test_a_fetched_file_that_is_damaged_before_it_is_judged_is_refused(
    tmp_path: Path, offer: TakePayload
) -> None:
    store, fetcher, job_runner = (
        BlobStore(tmp_path / "blobs"),
        HandDrivenFetcher(),
        PatientJobRunner(),
    )
    intake = PayloadIntake(fetcher, job_runner, store, tmp_path / "incoming", check, NoAnswers())
    file = fetched(intake, fetcher, offer)
    file.write_bytes(PAYLOAD.replace(b"statistics", b"stationery", 1))
    happening = outcome_of(job_runner.work())
    assert happening.ended == "unusable"
    assert "payload: promised" in happening.reason
    assert not store.has(offer.contribution.payload)
    assert not file.exists()


def test_a_fetched_file_that_is_damaged_after_it_was_read_is_not_what_is_stored(
    tmp_path: Path, offer: TakePayload
) -> None:
    def damage(method: str, settings: Mapping[str, Any], payload: bytes) -> Mapping[ClassName, int]:
        fetcher.under_way[0][1].write_bytes(PAYLOAD.replace(b"statistics", b"stationery", 1))
        return check(method, settings, payload)

    store, fetcher, job_runner = (
        BlobStore(tmp_path / "blobs"),
        HandDrivenFetcher(),
        PatientJobRunner(),
    )
    intake = PayloadIntake(fetcher, job_runner, store, tmp_path / "incoming", damage, NoAnswers())
    fetched(intake, fetcher, offer)
    assert outcome_of(job_runner.work()).ended == "stored"
    assert store.get(offer.contribution.payload) == PAYLOAD


def test_a_store_that_is_no_folder_gets_the_bytes_of_what_was_fetched(
    tmp_path: Path, offer: TakePayload
) -> None:
    store, fetcher = BlobStore(f"memory://{tmp_path}/blobs"), HandDrivenFetcher()
    job_runner = PatientJobRunner()
    intake = PayloadIntake(fetcher, job_runner, store, tmp_path / "incoming", check, NoAnswers())
    fetched(intake, fetcher, offer)
    assert outcome_of(job_runner.work()).ended == "stored"
    assert store.get(offer.contribution.payload) == PAYLOAD
    assert list((tmp_path / "incoming").iterdir()) == []


ATTACHED = b"few statistics"


def judged(tmp_path: Path, verdict: PayloadVerdict) -> Finished:
    """Return what is said of an attached payload of which a verdict came from elsewhere."""
    request = TakePayload(DEVICE, contribution(ATTACHED.decode()), ATTACHED, BACKBONE)
    store, job_runner = BlobStore(tmp_path / "blobs"), PatientJobRunner()
    intake = PayloadIntake(
        HandDrivenFetcher(), job_runner, store, tmp_path / "incoming", check, NoAnswers()
    )
    intake.believe(verdict)
    intake.submit([request])
    (finished,) = job_runner.results() or [job_runner.work()]
    return finished


SETTINGS = settings_digest(BACKBONE.method, BACKBONE.settings)


def test_a_payload_that_another_process_has_checked_is_not_checked_again(tmp_path: Path) -> None:
    counted = contribution(ATTACHED.decode()).samples
    finished = judged(tmp_path, PayloadVerdict(Digest.of(ATTACHED), SETTINGS, counted))
    assert outcome_of(finished).ended == "stored"
    assert finished.small_blobs == {Digest.of(ATTACHED): ATTACHED}


def test_what_another_process_found_wrong_is_refused(tmp_path: Path) -> None:
    finished = judged(tmp_path, PayloadVerdict(Digest.of(ATTACHED), SETTINGS, {}, "gram: NaN at 3"))
    assert outcome_of(finished).ended == "unusable"
    assert outcome_of(finished).reason == "gram: NaN at 3"


@pytest.mark.parametrize("other", ["payload", "settings"])
def test_a_verdict_holds_for_its_payload_and_its_settings_alone(tmp_path: Path, other: str) -> None:
    payload = Digest.of(b"another" if other == "payload" else ATTACHED)
    settings = Digest.of(b"others") if other == "settings" else SETTINGS
    finished = judged(tmp_path, PayloadVerdict(payload, settings, {}, "gram: NaN at 3"))
    assert outcome_of(finished).ended != "unusable" or ("samples" in outcome_of(finished).reason)
