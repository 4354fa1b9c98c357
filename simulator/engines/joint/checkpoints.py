"""Where joint training stands, kept after every round: weights in one file, records in another."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from fleetledger.runtime.strict import Strict
from fleetledger.schemas.values import Digest
from fleetledger.simulator.records import RoundRecord
from fleetledger.simulator.run.durable import replace_file


class _Facts(Strict):
    """What is kept beside the weights."""

    overall: int
    weights: Digest
    aggregate: Digest | None
    records: tuple[RoundRecord, ...]


@dataclass(frozen=True)
class JointCheckpoint:
    """A state between two rounds of a stage."""

    stage: int
    overall: int
    """Rounds of all stages."""
    weights: bytes
    aggregate: Digest | None = None
    records: tuple[RoundRecord, ...] = ()
    """Of the rounds of the stage."""

    @property
    def round(self) -> int:
        """Number of rounds of the stage that are done."""
        return len(self.records)

    def after(self, weights: bytes, aggregate: Digest, record: RoundRecord) -> JointCheckpoint:
        """Return the state after one more round."""
        return replace(
            self,
            overall=self.overall + 1,
            weights=weights,
            aggregate=aggregate,
            records=(*self.records, record),
        )


class Checkpoints:
    """The newest state of each stage, in one folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def newest(self, stage: int) -> JointCheckpoint | None:
        """Return where a stage stands; None where it was not begun."""
        path = self._facts(stage)
        if not path.exists():
            return None
        facts = _Facts.model_validate_json(path.read_bytes())
        weights = self._weights(facts.weights).read_bytes()
        return JointCheckpoint(stage, facts.overall, weights, facts.aggregate, facts.records)

    def begin(self, stage: int, weights: bytes) -> JointCheckpoint:
        """Return a stage's first state, which is not on disk yet."""
        before = self.newest(stage - 1)
        return JointCheckpoint(stage, before.overall if before is not None else 0, weights)

    def keep(self, point: JointCheckpoint) -> None:
        """Keep a state in place of the stage's former one; a crash leaves either of them."""
        former = self.newest(point.stage)
        digest = Digest.of(point.weights)
        replace_file(self._weights(digest), point.weights)
        facts = _Facts(
            overall=point.overall,
            weights=digest,
            aggregate=point.aggregate,
            records=point.records,
        )
        replace_file(self._facts(point.stage), facts.model_dump_json().encode())
        if former is not None and former.weights != point.weights:
            self._weights(Digest.of(former.weights)).unlink(missing_ok=True)

    def _facts(self, stage: int) -> Path:
        return self._folder / f"stage-{stage}.json"

    def _weights(self, digest: Digest) -> Path:
        return self._folder / f"{digest}.safetensors"
