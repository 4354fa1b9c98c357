"""The folder of one run, and of a seed in it.

<run>/scenario.toml                  the scenario as it ran
<run>/run.json                       machine, versions, when, state
<run>/seed-<n>/                      the engine's folder: coordinator/ and agents/<device>/
<run>/seed-<n>/stages.jsonl          a `StageRecord` per finished stage
<run>/seed-<n>/predictions.npz       the `Answers` or `PixelAnswers` of the finished stages
<run>/seed-<n>/scenes.npz            of answers of pixels: `ShownScenes`
<run>/seed-<n>/rollout.json          the `RolloutRecord`, where the scenario ends with a rollout
<run>/seed-<n>/model/                manifest.json and ONNX files of the last finished stage
<run>/results.json, results.csv, *.png, report.html
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from fleetledger.coordinator.errors import LedgerLockedError
from fleetledger.coordinator.ledger.lock import WriterLock
from fleetledger.schemas.message import explain
from fleetledger.schemas.values import Digest
from fleetledger.simulator.errors import RunError
from fleetledger.simulator.metrics.answers import Answers
from fleetledger.simulator.metrics.any_answers import AnyAnswers
from fleetledger.simulator.metrics.npz_files import names_in_npz
from fleetledger.simulator.metrics.pixel_answers import CONFUSION, PixelAnswers
from fleetledger.simulator.records import StageRecord
from fleetledger.simulator.rollouts.record import RolloutRecord
from fleetledger.simulator.run.durable import append_line, replace_file, whole_lines, written_beside
from fleetledger.simulator.shown_scenes import SCENES_FILE, ShownScenes


@dataclass(frozen=True)
class Kept:
    """Answers of the finished stages."""

    answers: AnyAnswers
    scenes: ShownScenes | None = None
    """What is shown of them, of answers of pixels."""

    @property
    def stages(self) -> int:
        """Stages of which everything is there."""
        shown = self.answers.stages if self.scenes is None else self.scenes.stages
        return min(self.answers.stages, shown)

    def first(self, stages: int) -> Kept:
        """Return the answers of the first so many stages."""
        scenes = None if self.scenes is None else self.scenes.first(stages)
        return Kept(self.answers.first(stages), scenes)


def load_answers(path: Path) -> AnyAnswers:
    """Read answers of either kind. Raises `MetricsError` when the file is missing or another."""
    return PixelAnswers.load(path) if CONFUSION in names_in_npz(path) else Answers.load(path)


@dataclass(frozen=True)
class SeedFolder:
    """What one seed leaves behind."""

    root: Path

    @property
    def model(self) -> Path:
        """Folder of the model of the last finished stage."""
        return self.root / "model"

    def records(self) -> tuple[StageRecord, ...]:
        """Return what is known of the finished stages; raise `RunError` for another file."""
        try:
            return tuple(
                StageRecord.model_validate_json(line) for line in whole_lines(self._stages)
            )
        except ValidationError as error:
            raise RunError(
                f"{self._stages}: {explain(error)}; it is of another version, so run again"
            ) from error

    def kept(self) -> Kept | None:
        """Return the answers of the models so far; None before the first stage is finished."""
        if not self._predictions.exists():
            return None
        scenes = ShownScenes.load(self._scenes) if self._scenes.exists() else None
        return Kept(load_answers(self._predictions), scenes)

    def finish_stage(self, record: StageRecord, kept: Kept) -> None:
        """Keep a finished stage; it counts as finished from its record on, so that is last."""
        with written_beside(self._predictions) as path:
            kept.answers.save(path)
        if kept.scenes is not None:
            with written_beside(self._scenes) as path:
                kept.scenes.save(path)
        append_line(self._stages, record.model_dump_json())

    def rollout(self) -> RolloutRecord | None:
        """Return what became of the rollout; None before its end. Raises as `records` does."""
        try:
            return RolloutRecord.model_validate_json(self._rollout.read_bytes())
        except FileNotFoundError:
            return None
        except ValidationError as error:
            raise RunError(
                f"{self._rollout}: {explain(error)}; it is of another version, so run again"
            ) from error

    def finish_rollout(self, record: RolloutRecord) -> None:
        """Keep what became of the rollout."""
        replace_file(self._rollout, record.model_dump_json(indent=1).encode() + b"\n")

    @property
    def _rollout(self) -> Path:
        return self.root / "rollout.json"

    @property
    def _stages(self) -> Path:
        return self.root / "stages.jsonl"

    @property
    def _predictions(self) -> Path:
        return self.root / "predictions.npz"

    @property
    def _scenes(self) -> Path:
        return self.root / SCENES_FILE


@dataclass(frozen=True)
class RunFolder:
    """Paths below a run's root."""

    root: Path

    @classmethod
    def create(cls, root: Path) -> RunFolder:
        """Make an empty run folder; raise `RunError` if something is there already."""
        root = cls.check_free(root)
        with _writing(root):
            root.mkdir(parents=True, exist_ok=True)
        return cls(root)

    @classmethod
    def check_free(cls, root: Path) -> Path:
        """Return the absolute path of a new or empty folder; raise `RunError` for another."""
        root = root.expanduser().absolute()
        with _writing(root):
            if root.exists() and any(root.iterdir()):
                raise RunError(
                    f"out: {root} is not empty; give a folder that is, or a new one; to go on with "
                    f"a run: fleetledger simulate --resume {root}"
                )
        return root

    @classmethod
    def open(cls, root: Path) -> RunFolder:
        """Return the folder of a run that was begun; raise `RunError` where there is none."""
        folder = cls(root.expanduser().absolute())
        if not folder.scenario.is_file() or not folder.facts.is_file():
            raise RunError(
                f"{root}: holds no run (scenario.toml and run.json); give the folder that "
                "`fleetledger simulate` wrote"
            )
        return folder

    @property
    def scenario(self) -> Path:
        """The scenario as it ran."""
        return self.root / "scenario.toml"

    @property
    def facts(self) -> Path:
        """Machine, versions, when, state."""
        return self.root / "run.json"

    def scenario_digest(self) -> Digest:
        """Return the digest of the scenario as it lies there."""
        return Digest.of(self.scenario.read_bytes())

    def seed(self, seed: int) -> SeedFolder:
        """Return a seed's folder, made where it is missing."""
        folder = self.root / f"seed-{seed}"
        folder.mkdir(exist_ok=True)
        return SeedFolder(folder)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other processes away; raise `RunError` where one is at work here."""
        try:
            lock = WriterLock(self.root / ".lock")
        except LedgerLockedError as error:
            raise RunError(f"{self.root}: another process is at work on this run; wait") from error
        try:
            yield
        finally:
            lock.release()


@contextmanager
def _writing(root: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise RunError(f"out: {root}: {error.strerror}; give a folder to write to") from error
