"""Callbacks of a run: what is told after each round, each stage and at the end, and to whom.

A callback is a function of a `RunEvent`, or a `Reporter` with methods `round`, `stage` and `done`.
`TensorBoard`, `MLflow` and `WandB` are reporters; each needs the extra of its name.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from fleetledger.runtime.pip_command import pip_install
from fleetledger.runtime.registry import Registry
from fleetledger.simulator.errors import RunError

if TYPE_CHECKING:
    from fleetledger.simulator.report.run import Run

__all__ = ["MLflow", "Reporter", "RunEvent", "TensorBoard", "WandB"]


@dataclass(frozen=True)
class RunEvent:
    """A round or a stage that has ended, or the end of a run."""

    kind: Literal["round", "stage", "done"]
    seed: int | None
    """None at the end of the run, which is of all seeds."""
    stage: int
    """Number of the stage, from 1; at the end of the run the last one."""
    stages: int
    round: int | None
    """Number of the round in its stage, from 1; None unless a round has ended."""
    step: int
    """Rounds of the seed so far, over all stages."""
    accuracy: float | None
    """Share of right answers on the test samples of all classes seen so far, from 0 to 1; mIoU of
    pixels. At the end of the run the mean over seeds. None of a round that was not measured."""
    values: Mapping[str, float]
    """Every number that is known, by its name in `results.csv`: of the round, of the stage, or at
    the end the means over seeds."""
    scenario: Mapping[str, Any]
    """Fields of the scenario by section, as its file has them."""
    run: Run | None = None
    """The finished run; None before the end."""


class Reporter:
    """Base of callbacks that take rounds, stages and the end apart; each does nothing here.

    They are called in the run's own thread, between its steps. What they raise ends the run, which
    can be resumed. Of a run that is resumed they are told what happens from then on.
    """

    def round(self, event: RunEvent) -> None:
        """Take a round that has ended."""

    def stage(self, event: RunEvent) -> None:
        """Take a stage that has ended, with its model measured."""

    def done(self, event: RunEvent) -> None:
        """Take the end of the run; its report is written."""

    def close(self) -> None:
        """Let go of what is open; called once, however the run ended."""


Callback = Reporter | Callable[[RunEvent], object]


class _Calling(Reporter):
    """A function of every event, as a reporter."""

    def __init__(self, function: Callable[[RunEvent], object]) -> None:
        self._function = function

    def round(self, event: RunEvent) -> None:
        self._function(event)

    def stage(self, event: RunEvent) -> None:
        self._function(event)

    def done(self, event: RunEvent) -> None:
        self._function(event)


def as_reporter(callback: object) -> Reporter:
    """Return a callback as a reporter; raise `RunError` for what is none."""
    if isinstance(callback, Reporter):
        return callback
    if callable(callback):
        return _Calling(callback)
    raise RunError(
        f"callbacks: {callback!r} is no function of an event and no fl.callbacks.Reporter; give "
        "one of these"
    )


class _BySeed(Reporter):
    """Writes the events of each seed to a place of its own, opened when it is needed.

    Numbers are called `round/<name>`, over the rounds so far, `stage/<name>`, over stages, and
    `final/<name>`, which are the seed's numbers as a whole.
    """

    def __init__(self) -> None:
        self._open: dict[int, Any] = {}

    def round(self, event: RunEvent) -> None:
        """Write the numbers of a round."""
        self._write(self._place(event.seed, event), "round", event.step, event.values)

    def stage(self, event: RunEvent) -> None:
        """Write the numbers of a stage."""
        self._write(self._place(event.seed, event), "stage", event.stage, event.values)

    def done(self, event: RunEvent) -> None:
        """Write the numbers of every seed as a whole, and close all as finished."""
        assert event.run is not None
        for seed, metrics in event.run.results.seeds.items():
            self._write(self._place(seed, event), "final", 0, metrics.headline)
        self._close(finished=True)

    def close(self) -> None:
        """Close what the end of the run has not."""
        self._close(finished=False)

    def _place(self, seed: int | None, event: RunEvent) -> Any:  # noqa: ANN401 - of another library
        assert seed is not None
        if seed not in self._open:
            self._open[seed] = self._begin(seed, event)
        return self._open[seed]

    def _close(self, *, finished: bool) -> None:
        while self._open:
            _, place = self._open.popitem()
            self._end(place, finished=finished)

    def _begin(self, seed: int, event: RunEvent) -> Any:  # noqa: ANN401 - of another library
        raise NotImplementedError

    def _write(self, place: Any, group: str, step: int, values: Mapping[str, float]) -> None:  # noqa: ANN401
        raise NotImplementedError

    def _end(self, place: Any, *, finished: bool) -> None:  # noqa: ANN401
        raise NotImplementedError


class TensorBoard(_BySeed):
    """Writes event files into `folder`, a run of TensorBoard for each seed: `tensorboard --logdir`.

    Needs the extra `tensorboard`, and no torch. Raises `RunError` without it.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        super().__init__()
        with _extra("tensorboard"):
            from tensorboard.compat.proto import event_pb2, summary_pb2  # noqa: PLC0415 - an extra
            from tensorboard.summary.writer.event_file_writer import (  # noqa: PLC0415
                EventFileWriter,
            )

        self._folder = Path(folder)
        self._writer, self._event, self._summary = EventFileWriter, event_pb2, summary_pb2

    def _begin(self, seed: int, event: RunEvent) -> Any:  # noqa: ANN401
        return self._writer(str(self._folder / f"seed-{seed}"))

    def _write(self, place: Any, group: str, step: int, values: Mapping[str, float]) -> None:  # noqa: ANN401
        told = [
            self._summary.Summary.Value(tag=f"{group}/{name}", simple_value=value)
            for name, value in values.items()
        ]
        summary = self._summary.Summary(value=told)
        place.add_event(self._event.Event(step=step, wall_time=time.time(), summary=summary))
        place.flush()

    def _end(self, place: Any, *, finished: bool) -> None:  # noqa: ANN401
        place.close()


class MLflow(_BySeed):
    """Logs to an experiment of MLflow, a run for each seed, with the scenario as its parameters.

    `tracking_uri` is that of MLflow; left out, what MLflow takes itself. Needs the extra `mlflow`.
    Raises `RunError` without it.
    """

    def __init__(self, experiment: str = "fleetledger", *, tracking_uri: str | None = None) -> None:
        super().__init__()
        with _extra("mlflow"):
            from mlflow import entities  # noqa: PLC0415 - an extra
            from mlflow.tracking import MlflowClient  # noqa: PLC0415

        self._entities, self._experiment = entities, experiment
        self._client = MlflowClient(tracking_uri)

    def _begin(self, seed: int, event: RunEvent) -> Any:  # noqa: ANN401
        found = self._client.get_experiment_by_name(self._experiment)
        number = found.experiment_id if found else self._client.create_experiment(self._experiment)
        name = f"{event.scenario['title']}, seed {seed}"
        place: str = self._client.create_run(number, run_name=name).info.run_id
        settings = {"seed": seed, **dict(_flat(event.scenario))}
        told = [
            self._entities.Param(_key(name), str(value)[:_LONGEST])
            for name, value in settings.items()
        ]
        for first in range(0, len(told), _AT_ONCE):
            self._client.log_batch(place, params=told[first : first + _AT_ONCE])
        return place

    def _write(self, place: Any, group: str, step: int, values: Mapping[str, float]) -> None:  # noqa: ANN401
        now = int(1000 * time.time())
        told = [
            self._entities.Metric(f"{group}/{_key(name)}", value, now, step)
            for name, value in values.items()
        ]
        for first in range(0, len(told), _AT_ONCE):
            self._client.log_batch(place, metrics=told[first : first + _AT_ONCE])

    def _end(self, place: Any, *, finished: bool) -> None:  # noqa: ANN401
        self._client.set_terminated(place, "FINISHED" if finished else "FAILED")


class WandB(_BySeed):
    """Logs to a project of Weights & Biases, a run for each seed in a group called as the scenario.

    `options` go to `wandb.init`: `mode="offline"` writes to this disk alone. Needs the extra
    `wandb`. Raises `RunError` without it.
    """

    def __init__(self, project: str = "fleetledger", **options: Any) -> None:  # noqa: ANN401
        super().__init__()
        with _extra("wandb"):
            import wandb  # noqa: PLC0415 - an extra

        self._wandb, self._options = wandb, {"project": project, **options}

    def _begin(self, seed: int, event: RunEvent) -> Any:  # noqa: ANN401
        title = event.scenario["title"]
        told = {"group": title, "name": f"{title}, seed {seed}", "config": dict(event.scenario)}
        place = self._wandb.init(**{**told, **self._options, "reinit": "create_new"})
        for group in ("round", "stage"):
            place.define_metric(f"{group}/*", step_metric=f"{group}/number")
        return place

    def _write(self, place: Any, group: str, step: int, values: Mapping[str, float]) -> None:  # noqa: ANN401
        told = {f"{group}/{name}": value for name, value in values.items()}
        if group == "final":
            place.summary.update(told)
        else:
            place.log({f"{group}/number": step, **told})

    def _end(self, place: Any, *, finished: bool) -> None:  # noqa: ANN401
        place.finish(exit_code=0 if finished else 1)


_OWN: dict[str, Callable[[Path], Callback]] = {
    "mlflow": lambda _folder: MLflow(),
    "tensorboard": lambda folder: TensorBoard(folder / "tensorboard"),
    "wandb": lambda _folder: WandB(),
}
REPORTERS = Registry[Callable[[Path], Callback]]("reporter", "fleetledger.reporters").own(_OWN)
"""By name, for `simulate --report-to`. Each is called with the folder of the run, which may not be
there yet, and returns a callback."""
_AT_ONCE = 100
"""Metrics or parameters in a call to MLflow, which takes no more of the latter."""
_LONGEST = 500
"""Characters of a parameter's value in every version of MLflow."""


@contextmanager
def _extra(name: str) -> Iterator[None]:
    """Raise `RunError` where an optional package is not installed."""
    try:
        yield
    except ImportError as error:
        raise RunError(f"callbacks: {name} is not installed; {pip_install(name)}") from error


def _key(name: str) -> str:
    """Return a name in characters that MLflow takes."""
    return re.sub(r"[^\w\-./ ]", "_", name)


def _flat(values: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{before}{name}.")
        else:
            yield f"{before}{name}", value
