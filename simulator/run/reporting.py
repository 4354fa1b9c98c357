"""The callbacks of one run, told of each round, each stage and the end."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

from fleetledger.simulator.callbacks import REPORTERS, Callback, RunEvent, as_reporter
from fleetledger.simulator.errors import RunError
from fleetledger.simulator.metrics.named_values import round_values, stage_values
from fleetledger.simulator.metrics.seed_metrics import StageMetrics
from fleetledger.simulator.records import RoundRecord, StageRecord
from fleetledger.simulator.scenario.loading import scenario_content
from fleetledger.simulator.scenario.model import Scenario

if TYPE_CHECKING:
    from fleetledger.simulator.report.run import Run


class Reporting:
    """Callbacks, and where the run is; leaving the block closes them all.

    `callbacks` are values of `Callback`, or names of `REPORTERS`, made on the run's folder.
    """

    def __init__(
        self, callbacks: Sequence[Callback | str], folder: Path, scenario: Scenario
    ) -> None:
        self._reporters = [
            as_reporter(_named(told)(folder) if isinstance(told, str) else told)
            for told in callbacks
        ]
        self._scenario: Mapping[str, Any] = MappingProxyType(scenario_content(scenario))
        self._seed = 0
        self._stage, self._stages = 1, 1
        self._rounds = 0
        """Of the seed's finished stages."""

    def seed(self, seed: int, records: Sequence[StageRecord], stages: int) -> None:
        """Begin with a seed of which some stages are finished."""
        self._seed, self._stage, self._stages = seed, len(records) + 1, stages
        self._rounds = sum(len(record.rounds) for record in records)

    def round(self, record: RoundRecord) -> None:
        """Tell of a round that has ended."""
        values = dict(round_values(record))
        event = self._event("round", record.accuracy, values, self._rounds + record.number)
        for reporter in self._reporters:
            reporter.round(event)

    def stage(self, record: StageRecord, measured: StageMetrics) -> None:
        """Tell of a stage that has ended, and go to the next."""
        self._rounds += len(record.rounds)
        event = self._event("stage", measured.accuracy, dict(stage_values(measured)), self._rounds)
        for reporter in self._reporters:
            reporter.stage(event)
        self._stage = min(self._stage + 1, self._stages)

    def done(self, run: Run) -> None:
        """Tell of the end."""
        values = {name: of.mean for name, of in run.results.summary.items()}
        event = self._event("done", values["final_accuracy"], values, self._rounds, run)
        for reporter in self._reporters:
            reporter.done(event)

    def close(self) -> None:
        """Close the callbacks; the first error is raised when all were asked."""
        with ExitStack() as stack:
            for reporter in self._reporters:
                stack.callback(reporter.close)

    def _event(
        self,
        kind: Literal["round", "stage", "done"],
        accuracy: float | None,
        values: dict[str, float],
        step: int,
        run: Run | None = None,
    ) -> RunEvent:
        return RunEvent(
            kind=kind,
            seed=None if run else self._seed,
            stage=self._stage,
            stages=self._stages,
            round=int(values["number"]) if kind == "round" else None,
            step=step,
            accuracy=accuracy,
            values=MappingProxyType(values),
            scenario=self._scenario,
            run=run,
        )


def _named(name: str) -> Callable[[Path], Callback]:
    if name not in REPORTERS:
        raise RunError(f"reporter: {name!r} is unknown; give one of {', '.join(REPORTERS)}")
    return REPORTERS[name]
