"""A finished run as Python has it: matrices, numbers over seeds, tables, frames and figures."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray
from typing_extensions import Self

from fleetledger.runtime.count_words import count_of
from fleetledger.simulator.errors import MetricsError
from fleetledger.simulator.metrics.headline import metric_of
from fleetledger.simulator.metrics.metric import accuracy_matrix
from fleetledger.simulator.metrics.named_values import stage_values
from fleetledger.simulator.metrics.over_seeds import Summary, summary
from fleetledger.simulator.metrics.results import RunResults
from fleetledger.simulator.metrics.task_scores import intransigence
from fleetledger.simulator.report.frames import frame_of
from fleetledger.simulator.report.numbers import show_summary
from fleetledger.simulator.report.pictures.gallery import figure_of, pictures_of, write_figures
from fleetledger.simulator.report.tables.table import Table, as_latex, as_markdown
from fleetledger.simulator.scenario.loading import scenario_content
from fleetledger.simulator.scenario.trainer import JOINT

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pandas import DataFrame

Floats = NDArray[np.float64]
SHORT = {
    "average": "average_incremental_accuracy",
    "last": "final_accuracy",
    "bwt": "backward_transfer",
    "fwt": "forward_transfer",
    "worst": "worst_device_accuracy",
}
"""Short names of metrics, beside their own."""
_SHOWN = ("average", "last", "forgetting", "bwt", "worst")


class Run:
    """A finished run: what `results.json` in its folder holds, and what follows from it.

    Accuracies are shares from 0 to 1, of pixels mIoU; bytes, seconds and other units are those of
    `fl.metrics`. Numbers over seeds are `Summary` values, with `mean`, sample `deviation`, `count`
    and `half_width` of the 95 % interval of Student's t; `float()` of one is its mean.
    """

    def __init__(self, folder: Path, results: RunResults) -> None:
        self.folder = folder
        """Of the run, with its report, records, answers and models."""
        self.results = results
        """Everything in `results.json`, as a checked model."""

    @classmethod
    def open(cls, folder: str | os.PathLike[str]) -> Self:
        """Return the run in a folder; raise `RunError` where none is finished."""
        path = Path(folder).expanduser().absolute()
        return cls(path, RunResults.read(path))

    def __repr__(self) -> str:
        seeds = count_of(len(self.seeds), "seed")
        return f"Run({str(self.folder)!r}: {self.title}, {seeds}, last {self.accuracy})"

    def _repr_markdown_(self) -> str:
        """Return what a notebook shows of it: the main metrics."""
        return self.to_markdown()

    @property
    def title(self) -> str:
        """Title of the scenario."""
        return self.results.scenario.title

    @property
    def scenario(self) -> dict[str, Any]:
        """Fields of the scenario by section, as its file has them."""
        return scenario_content(self.results.scenario)

    @property
    def provenance(self) -> dict[str, str | int | float]:
        """Machine, commit, command and versions of what computed, by name."""
        return dict(self.results.machine)

    @property
    def seeds(self) -> tuple[int, ...]:
        """Seeds of the run, in its order."""
        return tuple(self.results.seeds)

    @property
    def stages(self) -> int:
        """T, the stages that every seed got through."""
        return self.results.stages

    def classes(self, seed: int | None = None) -> tuple[tuple[str, ...], ...]:
        """Return the names of the classes that each stage brought, (T,); of the first seed if None.

        Raises `MetricsError` for a seed that the run has not.
        """
        number = self.seeds[0] if seed is None else self._known(seed)
        return tuple(stage.class_names for stage in self.results.seeds[number].stages)

    def matrix(self, seed: int | None = None) -> Floats:
        """Return the accuracy of each task after each stage, (T, T); the mean over seeds if None.

        Row t is the model after stage t, column i the test samples of the classes that came with
        stage i, all among the classes seen by t: a[t, i]. NaN above the diagonal. Raises
        `MetricsError` for a seed that the run has not.
        """
        if seed is not None:
            return accuracy_matrix(self.results.seeds[self._known(seed)].stages)
        held = self.results.seeds.values()
        mean: Floats = np.mean([accuracy_matrix(each.stages[: self.stages]) for each in held], 0)
        return mean

    def curve(self, name: str = "accuracy") -> Floats:
        """Return a number of stages by seed and stage, (S, T); NaN where it is not known.

        Names are those of `results.csv`, such as `accuracy`, `forgetting`, `new_accuracy` or
        `bytes_up_total`. Raises `MetricsError` for a name that no stage has.
        """
        rows = [
            [dict(stage_values(stage)).get(name, np.nan) for stage in seed.stages[: self.stages]]
            for seed in self.results.seeds.values()
        ]
        found = np.array(rows, np.float64)
        if np.isnan(found).all():
            known = dict(stage_values(self.results.first.stages[-1]))
            raise MetricsError(
                f"curve: {name!r} is no number of a stage; give one of {_told(known)}"
            )
        return found

    def values(self, name: str) -> dict[int, float]:
        """Return a metric by seed, of the seeds that have it; raise `MetricsError` for none."""
        return self.results.headline(self._name(name))

    def summary(self, name: str) -> Summary:
        """Return a metric over the seeds; raise `MetricsError` where the run has none of the name.

        Short names are `average`, `last`, `bwt`, `fwt` and `worst`.
        """
        return self.results.summary[self._name(name)]

    @property
    def metrics(self) -> tuple[str, ...]:
        """Names of all metrics that are known of the run."""
        return tuple(self.results.summary)

    @property
    def accuracy(self) -> Summary:
        """Accuracy after the last stage, on the test samples of all classes."""
        return self.summary("final_accuracy")

    @property
    def average_accuracy(self) -> Summary:
        """Average incremental accuracy: the mean over stages of that on all classes seen so far."""
        return self.summary("average_incremental_accuracy")

    @property
    def forgetting(self) -> Summary:
        """Mean over earlier tasks of their best accuracy minus the last one; lower is better.

        Chaudhry et al., Riemannian Walk for Incremental Learning, ECCV 2018, whose best is over the
        stages before the last; here it is over all, so no task counts below 0.
        """
        return self.summary("forgetting")

    @property
    def backward_transfer(self) -> Summary | None:
        """BWT: accuracy after the last stage minus that after the task's own, over earlier tasks.

        Lopez-Paz and Ranzato, Gradient Episodic Memory, NeurIPS 2017, equation 3. Negative where
        tasks were forgotten. None of a run of one stage.
        """
        return self.results.summary.get("backward_transfer")

    @property
    def forward_transfer(self) -> Summary | None:
        """FWT: accuracy on a task by the model of the stage before, minus chance, over later tasks.

        Lopez-Paz and Ranzato 2017, equation 4; chance is one in the classes seen by then. None
        where classes come once: before its stage a class has no row in the head.
        """
        return self.results.summary.get("forward_transfer")

    def intransigence(self, joint: Run | None = None) -> Summary:
        """Return what learning in stages costs new tasks, against a run of the method `joint`.

        The mean over stages k of a*[k, k] - a[k, k], a* being the joint run's matrix, over the
        seeds that both have; lower is better. Chaudhry et al., ECCV 2018. Raises `MetricsError`
        without a joint run of the same data and stages.
        """
        if joint is None or joint.results.scenario.method.name != JOINT:
            raise MetricsError(
                f"intransigence: {'no run' if joint is None else joint.folder.name} to measure "
                "against; run the same scenario with method.name = 'joint', and give that run"
            )
        shared = [seed for seed in self.seeds if seed in joint.seeds]
        if not shared or any(self.classes(seed) != joint.classes(seed) for seed in shared):
            raise MetricsError(
                f"intransigence: {joint.folder.name} shares no seed with the same stages; run the "
                "same scenario with method.name = 'joint'"
            )
        costs = [intransigence(self.matrix(seed), joint.matrix(seed)) for seed in shared]
        known = [cost for cost in costs if cost is not None]
        if not known:
            raise MetricsError("intransigence: no accuracy of a new task is known in both runs")
        return summary(known)

    @property
    def fairness(self) -> dict[str, Summary]:
        """How even devices fare after the last stage, each under its own class distribution.

        `mean`, `worst` and `deviation` over devices (Li, Sanjabi, Beirami and Smith, Fair Resource
        Allocation in Federated Learning, ICLR 2020), and `jain`, Jain's index, from 1/K to 1 (Jain,
        Chiu and Hawe, 1984). Empty of pixels.
        """
        names = {
            "mean": "device_accuracy",
            "worst": "worst_device_accuracy",
            "deviation": "device_accuracy_deviation",
            "jain": "device_accuracy_jain",
        }
        held = self.results.summary
        return {short: held[name] for short, name in names.items() if name in held}

    def to_frame(
        self, of: Literal["results", "metrics", "devices", "rounds"] = "results"
    ) -> DataFrame:
        """Return numbers as a pandas DataFrame.

        `results`: a row per number (`seed`, `stage`, `metric`, `value`), as in `results.csv`; a
        number of a whole seed has no stage. `metrics`: a row per seed, a column per metric.
        `devices`: a row per seed and device. `rounds`: a row per seed, stage and round. Raises
        `RunError` without pandas, which the extra `frames` installs.
        """
        return frame_of(self.results, of)

    def to_markdown(self, metrics: Sequence[str] | None = None) -> str:
        """Return metrics as a table in Markdown, mean ± deviation over seeds; main ones if None.

        Raises `MetricsError` for a name that the run has not.
        """
        return as_markdown(self._table(metrics))

    def to_latex(self, metrics: Sequence[str] | None = None) -> str:
        r"""Return metrics as a LaTeX `tabular` with the rules of `booktabs`, as `to_markdown`."""
        return as_latex(self._table(metrics))

    @property
    def figures(self) -> tuple[str, ...]:
        """Names of the figures that the run has something to show in."""
        return tuple(picture.name for picture in pictures_of(self.results))

    def figure(self, name: str = "accuracy") -> Figure:
        """Return a picture of the report as a matplotlib Figure, whose `savefig` writes any format.

        Raises `RunError` for a name that is none of `figures`.
        """
        return figure_of(self.results, name)

    def write_figures(
        self, *kinds: str, folder: str | os.PathLike[str] | None = None
    ) -> list[Path]:
        """Write every figure as `svg`, `pdf` or `png` into a folder, the run's own if None.

        Returns their paths. Raises `RunError` for another kind.
        """
        return write_figures(self.results, Path(folder) if folder else self.folder, kinds)

    def _table(self, metrics: Sequence[str] | None) -> Table:
        known = [name for name in _SHOWN if SHORT.get(name, name) in self.results.summary]
        chosen = [metric_of(self._name(name)) for name in metrics or known]
        head = ("run", *(metric.said_title(self.results.score) for metric in chosen))
        row = (show_summary(self.results.summary[metric.name], metric.unit) for metric in chosen)
        return Table(self.title, head, ((self.title, *row),))

    def _name(self, name: str) -> str:
        whole = SHORT.get(name, name)
        if whole not in self.results.summary:
            raise MetricsError(
                f"metric: {name!r} is not known of this run; give one of {_told(self.metrics)}"
            )
        return whole

    def _known(self, seed: int) -> int:
        if seed not in self.results.seeds:
            raise MetricsError(f"seed: {seed} is not in this run; give one of {_told(self.seeds)}")
        return seed


def _told(names: Any) -> str:  # noqa: ANN401 - whatever is listed
    return ", ".join(map(str, names))
