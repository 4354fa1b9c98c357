"""Intake of payloads: fetches an offer, lets the method check it, and stores it.

Nothing is stored before the digest, the size and the method's own checks are right.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from fleetledger.coordinator.core.inputs import PayloadOutcome
from fleetledger.coordinator.core.work import TakePayload
from fleetledger.coordinator.errors import BlobError
from fleetledger.coordinator.ledger.blobs import BlobStore
from fleetledger.coordinator.ledger.store import SMALL_BLOB_BYTES
from fleetledger.coordinator.models.job_runner import Finished, JobRunner
from fleetledger.coordinator.models.payload_check import CheckCost, PayloadVerdict, Verdicts
from fleetledger.runtime.errors import FleetledgerError
from fleetledger.runtime.log_lines import about
from fleetledger.runtime.problems import PATIENCE_SECONDS, OpenProblem
from fleetledger.runtime.progress import working_at
from fleetledger.schemas.offers import Offer
from fleetledger.schemas.tensors import reading_cost
from fleetledger.schemas.values import ClassName, DeviceId, Digest
from fleetledger.transport.part_file import file_identity

log = logging.getLogger("coordinator.intake")

WORD_BYTES = 8
_NO_WORDS = "payload_bytes: no multiple of 8; give words of 64 bits, little-endian"
FETCH_SECONDS = 600.0
OFFERED_AGAIN_SECONDS = 900.0
"""Within which a device offers again what could not be taken."""

Check = Callable[[str, Mapping[str, Any], bytes], Mapping[ClassName, int]]
"""A method's check of a payload: (method, settings, payload) to its samples per class name."""


class AnswerIntake(Protocol):
    """Checks and adds answers to rounds."""

    def check(self, request: TakePayload, payload: bytes) -> None:
        """Raise what is wrong with an answer."""

    def add(self, request: TakePayload, payload: bytes) -> None:
        """Take in an answer that was checked and is kept."""


class Fetcher(Protocol):
    """The part of a block exchange that fetches."""

    def fetch(
        self, offer: Offer, destination: Path, peer: DeviceId, *, seconds: float
    ) -> Future[Path]:
        """Fetch what `peer` offered into `destination`; its digest was checked when it is there."""


@dataclass(frozen=True)
class _HashedFile:
    """A file as it was when its bytes had been hashed."""

    path: Path
    identity: object
    """By `file_identity`; None where it was gone."""

    @property
    def unchanged(self) -> bool:
        """Whether nobody has written to it since."""
        return self.identity is not None and file_identity(self.path) == self.identity


@dataclass(frozen=True)
class _Missing:
    """A payload that was offered and is not stored."""

    why: str
    here: bool
    """Whether it came, and could not be stored."""
    newest: float
    """When that was tried last."""


class PayloadIntake:
    """Fetches, checks and stores payloads."""

    def __init__(
        self,
        fetcher: Fetcher,
        job_runner: JobRunner,
        store: BlobStore,
        folder: Path,
        check: Check,
        answers: AnswerIntake,
    ) -> None:
        self._fetcher = fetcher
        self._job_runner = job_runner
        self._store = store
        self._folder = folder
        self._check = check
        self._answers = answers
        self._check_cost = CheckCost()
        self._verdicts = Verdicts()
        self._missing: dict[DeviceId, _Missing] = {}
        """Devices whose newest payload could not be taken in."""
        folder.mkdir(parents=True, exist_ok=True)

    def believe(self, verdict: PayloadVerdict) -> None:
        """Note what another process of this coordinator has found of a payload."""
        self._verdicts.note(verdict)

    def problems(self) -> Iterator[OpenProblem]:
        """Yield why payloads that devices offer are not in the ledger.

        A device that offers nothing more has gone, or has withdrawn it: nothing is said of it.
        """
        now = time.monotonic()
        late = {
            device: missing
            for device, missing in sorted(self._missing.copy().items())
            if now - missing.newest < OFFERED_AGAIN_SECONDS
        }
        for device, missing in late.items():
            if missing.here:
                text = f"payloads cannot be stored: {missing.why}; their devices offer them again"
                yield OpenProblem("payloads", text, hinders=True, key="here")
                return
            text = (
                f"payload of {device}: {missing.why}; look at the device's network and at "
                "`agent status` there"
            )
            yield OpenProblem("payloads", text, patience=PATIENCE_SECONDS, key=device)

    def _lacks(self, request: TakePayload, why: object, *, here: bool = False) -> None:
        self._missing[request.device] = _Missing(str(why), here, time.monotonic())

    def submit(self, requests: Sequence[TakePayload]) -> None:
        """Start to take payloads in; the job runner's results say how each ended."""
        # One job for all that came attached: handing a small payload to another thread alone
        # costs as much as its check.
        attached: list[TakePayload] = []
        for request in requests:
            if request.contribution.offer is None:
                verdict = self._verdict(request)
                if verdict is None:
                    attached.append(request)
                else:
                    self._job_runner.put(self._judge(request, request.attachment, verdict=verdict))
        if attached:
            self._job_runner.payload_job(
                lambda: [self._judge(request, request.attachment) for request in attached]
            )
        for request in requests:
            if request.contribution.offer is not None:
                self._take_offered(request, request.contribution.offer)

    def _verdict(self, request: TakePayload) -> PayloadVerdict | None:
        if request.round is not None or request.cohort is not None:
            return None
        lineage = request.lineage
        return self._verdicts.take(lineage.method, lineage.settings, request.contribution.payload)

    def _take_offered(self, request: TakePayload, offer: Offer) -> None:
        if self._store.has(offer.digest):
            self._job_runner.payload_job(
                lambda: [self._judge(request, self._store.get(offer.digest))]
            )
            return
        destination = self._folder / offer.digest
        future = self._fetcher.fetch(offer, destination, request.device, seconds=FETCH_SECONDS)
        future.add_done_callback(lambda fetched: self._fetched(request, fetched))

    def _fetched(self, request: TakePayload, fetched: Future[Path]) -> None:
        error = fetched.exception()
        if error is not None:
            _warn("payload.not_fetched", request, error)
            self._lacks(request, error)
            missing = PayloadOutcome(request.device, request.contribution, "missing", str(error))
            self._job_runner.put(Finished(missing))
            return
        path = fetched.result()
        # The fetch has just hashed what lies there.
        file = _HashedFile(path, file_identity(path))
        self._job_runner.payload_job(lambda: [self._judge_file(request, file)])

    def _judge_file(self, request: TakePayload, file: _HashedFile) -> Finished:
        try:
            payload = file.path.read_bytes()
        except FileNotFoundError:
            # Offered twice, and the other fetch of the same file was judged in between.
            reason = "was taken in by another request at the same time; offer it again"
            return Finished(PayloadOutcome(request.device, request.contribution, "missing", reason))
        try:
            return self._judge(request, payload, file if file.unchanged else None)
        finally:
            file.path.unlink(missing_ok=True)

    def _judge(
        self,
        request: TakePayload,
        payload: bytes,
        file: _HashedFile | None = None,
        verdict: PayloadVerdict | None = None,
    ) -> Finished:
        """Return what is to be said of a payload; one that was read from a `file` is hashed.

        With a `verdict` the method is not asked again.
        """
        contribution = request.contribution
        working_at(f"payload of {request.device}")
        fault = self._fault(request, payload, verdict, hashed=file is not None)
        cost = 0 if request.cohort is not None else reading_cost(payload)
        if request.round is None and request.cohort is None:
            cost += self._check_cost(request.lineage.method, request.lineage.settings)
        self._missing.pop(request.device, None)
        if fault:
            _warn("payload.refused", request, fault)
            unusable = PayloadOutcome(request.device, contribution, "unusable", fault)
            return Finished(unusable, json_bytes=cost)
        small = {}
        if len(payload) <= SMALL_BLOB_BYTES:
            small[contribution.payload] = payload
        else:
            try:
                self._keep(contribution.payload, payload, file)
            except BlobError as error:  # a full disk is no fault of the payload
                _warn("payload.not_stored", request, error)
                self._lacks(request, error, here=True)
                missing = PayloadOutcome(request.device, contribution, "missing", str(error))
                return Finished(missing, json_bytes=cost)
        if request.round is not None and request.cohort is None:
            self._answers.add(request, payload)
        return Finished(PayloadOutcome(request.device, contribution), small, cost)

    def _keep(self, digest: Digest, payload: bytes, file: _HashedFile | None) -> None:
        """Store a payload that has this digest, by moving the file that it came as."""
        if file is not None and file.unchanged and self._store.adopt(file.path, digest):
            return
        self._store.put(payload, digest)

    def _fault(
        self, request: TakePayload, payload: bytes, verdict: PayloadVerdict | None, *, hashed: bool
    ) -> str:
        contribution = request.contribution
        if len(payload) != contribution.payload_bytes:
            return f"payload_bytes: {contribution.payload_bytes} promised, {len(payload)} came"
        digest = contribution.payload if hashed else Digest.of(payload)
        if digest != contribution.payload:
            return f"payload: promised {contribution.payload.short}, {digest.short} came"
        lineage = request.lineage
        if request.cohort is not None:
            return "" if len(payload) % WORD_BYTES == 0 else _NO_WORDS
        try:
            if request.round is not None:
                self._answers.check(request, payload)
                return ""
            if verdict is not None and verdict.fault:
                return verdict.fault
            samples = (
                self._check(lineage.method, lineage.settings, payload)
                if verdict is None
                else verdict.samples
            )
        except FleetledgerError as error:
            return str(error)
        if dict(samples) != dict(contribution.samples):
            return "samples: the payload counts other images than the message says"
        return ""


def _warn(event: str, request: TakePayload, why: object) -> None:
    said = about(
        event,
        device=request.device,
        stage=request.contribution.key.stage,
        payload=request.contribution.payload.short,
    )
    what = event.replace(".", " ").replace("_", " ")
    log.warning("%s: %s: %s", request.device, what, why, extra=said)
