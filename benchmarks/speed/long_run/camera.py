"""When one camera with an image an hour gives parts, by the agent's own rules and store."""

from __future__ import annotations

from pathlib import Path

from benchmarks.speed.contribution_rate.load import PREPROCESSING
from fleetledger.coordinator.models.file_offers import offer_of
from fleetledger.device_agent.core import inputs
from fleetledger.device_agent.core.records import Job
from fleetledger.device_agent.core.requests import Request
from fleetledger.device_agent.core.session import turn
from fleetledger.device_agent.core.state import AgentRules, AgentState, DeviceIdentity
from fleetledger.device_agent.home.store.store import AgentStore
from fleetledger.device_agent.settings import AgentDataSettings
from fleetledger.schemas.assignments import Assignment
from fleetledger.schemas.contributions import Contribution
from fleetledger.schemas.presence import Capabilities, CoordinatorBirth, Welcome
from fleetledger.schemas.receipts import Accepted, Receipt
from fleetledger.schemas.values import BootId, ClassName, Digest

HOUR = 3600.0
DAY = 24 * HOUR
WATCHED_DAYS = 40
"""Days that the agent is run for; behind them it gives a part a day, as on the last of them."""


def parts_of(days: int, folder: Path) -> list[tuple[float, int]]:
    """Return the seconds since its start at which a camera gives a part, and its images."""
    camera = _Camera(folder / "camera.db")
    found = camera.parts(min(days, WATCHED_DAYS))
    camera.close()
    if days > WATCHED_DAYS:
        last, _ = found[-1]
        found += [(last + DAY * n, 24) for n in range(1, int(days - last / DAY) + 1)]
    return [part for part in found if part[0] < days * DAY]


class _Camera:
    """An agent whose folder gets one more image every hour, and whose coordinator takes all."""

    def __init__(self, path: Path) -> None:
        pauses = AgentDataSettings(folder=Path("data"))
        self.now = 0.0
        self._store = AgentStore(path)
        self._boot, self._coordinator = BootId.fresh(), BootId.fresh()
        rules = AgentRules(
            pause_seconds=pauses.pause_seconds,
            longest_pause_seconds=pauses.longest_pause_seconds,
            detection=None,
        )
        identity = DeviceIdentity(self._store.installation, self._boot, _ABLE)
        self._state = AgentState(rules, identity, self._store.load())
        self._images: list[inputs.Image] = []
        self._assignment = _assignment()

    def close(self) -> None:
        """Close its store."""
        self._store.close()

    def parts(self, days: int) -> list[tuple[float, int]]:
        """Live for so many days; return when parts were given, and their images."""
        self._take_image()
        self._greeted()
        found = self._given()
        for hour in range(1, 24 * days):
            due = hour * HOUR
            while self._state.work.joins_at and self.now < self._state.work.joins_at <= due:
                self.now = self._state.work.joins_at
                found += self._given()
            self.now = due
            self._take_image()
            found += self._given()
        return found

    def _greeted(self) -> None:
        self._give(inputs.Started())
        self._give(inputs.AgentConnected())
        born = CoordinatorBirth(ledger_size=10)
        self._give(inputs.CoordinatorBorn(self._coordinator, born))
        self._give(inputs.Welcomed(self._coordinator, Welcome(boot=self._boot, next_part=0)))
        self._give(inputs.Assigned(self._coordinator, self._assignment))
        assert self._assignment.frozen is not None
        self._give(inputs.FetchFinished(self._assignment.frozen.digest))

    def _take_image(self) -> None:
        number = len(self._images)
        name = _NAMES[number % len(_NAMES)]
        digest = Digest.of(str(number).encode())
        self._images.append(inputs.Image(f"{name}/{number:06}", digest, name))

    def _given(self) -> list[tuple[float, int]]:
        """Let the folder be looked at; return the part that was made of it, if one was."""
        self.now = max(self.now, self._state.scanning.due)
        self._give(inputs.Ticked())
        while self._state.scanning.running:
            self._give(inputs.Scanned(tuple(self._images)))
            self._give(inputs.Ticked())
        found = []
        while (job := self._state.work.job) is not None:
            found.append((self.now, len(self._state.work.images)))
            self._compute(job)
        return found

    def _compute(self, job: Job) -> None:
        images = self._state.work.images
        payload = Digest.of(f"{job.key} {job.revision}".encode())
        contribution = Contribution(
            key=job.key,
            revision=job.revision,
            payload_kind="statistics",
            method=job.method,
            lineage=job.lineage,
            payload=payload,
            payload_bytes=7,
            samples={images[0].class_name: len(images)},
        )
        used = frozenset(image.digest for image in images)
        self._give(inputs.PartComputed(job, contribution, used, attached=b"payload"))
        taken = Accepted(ledger_index=1)
        receipt = Receipt(
            about="contribution", key=job.key, revision=job.revision, payload=payload, answer=taken
        )
        self._give(inputs.ReceiptArrived(receipt))

    def _give(self, event: inputs.Input) -> list[Request]:
        return list(turn(self._state, event, self.now, self._store.commit))


_NAMES = (ClassName("clear"), ClassName("covered"))
_ABLE = Capabilities(
    agent_version="0.1.0", python="3.11", machine="aarch64", features=frozenset(), memory_mib=512
)


def _assignment() -> Assignment:
    frozen = offer_of(b"frozen")
    return Assignment(
        action=1,
        stage=1,
        method="stsa",
        lineage=frozen.digest,
        frozen=frozen,
        class_names=_NAMES,
        stage_class_names=_NAMES,
        max_samples_per_part=1000,
        min_samples_per_class=1,
        settings={},
        preprocessing=PREPROCESSING,
    )
