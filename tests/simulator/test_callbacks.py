"""TensorBoard, MLflow and W&B get the numbers of a run, read back by their own libraries."""

from __future__ import annotations

import sys
from contextlib import closing
from pathlib import Path

import pytest

import fleetledger as fl
from fleetledger.simulator.callbacks import REPORTERS
from fleetledger.simulator.errors import RunError
from fleetledger.simulator.run.reporting import Reporting
from tests.simulator.fake_run import Shape, fake_seed, write_fake_run

SHAPE = Shape(stages=2, devices=3, seeds=(1, 2), rounds=2)


def run_with(folder: Path, *callbacks: object) -> fl.Run:
    """Tell callbacks of a whole run, of which nothing happened."""
    results = write_fake_run(folder, SHAPE)
    run = fl.Run(folder, results)
    with closing(Reporting(callbacks, folder, results.scenario)) as reporting:
        for seed in SHAPE.seeds:
            fake = fake_seed(SHAPE, seed)
            reporting.seed(seed, (), SHAPE.stages)
            for record, measured in zip(fake.records, fake.metrics.stages, strict=True):
                for each in record.rounds:
                    reporting.round(each)
                reporting.stage(record, measured)
        reporting.done(run)
    return run


def test_rounds_are_counted_over_the_stages_of_a_seed(tmp_path: Path):
    told: list[fl.callbacks.RunEvent] = []
    run = run_with(tmp_path, told.append)
    rounds = [(e.seed, e.stage, e.round, e.step) for e in told if e.kind == "round"]
    assert rounds == [
        (seed, stage, number, 2 * (stage - 1) + number)
        for seed in (1, 2)
        for stage in (1, 2)
        for number in (1, 2)
    ]
    first = run.results.seeds[1].stages[0].rounds[0]
    assert told[0].accuracy == first.accuracy
    assert told[0].values["loss"] == first.loss
    assert "ensemble_accuracy" not in told[0].values
    assert told[-1].accuracy == run.accuracy.mean


def test_all_callbacks_are_closed_though_one_fails(tmp_path: Path):
    closed = []

    class Failing(fl.callbacks.Reporter):
        def close(self):
            closed.append(self)
            raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        run_with(tmp_path, Failing(), Failing())
    assert len(closed) == 2


@pytest.mark.parametrize("name", ["tensorboard", "mlflow", "wandb"])
def test_a_library_that_is_missing_is_named_with_its_extra(tmp_path: Path, monkeypatch, name):
    for module in [name, *(each for each in sys.modules if each.startswith(f"{name}."))]:
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(RunError, match=rf"{name} is not installed; pip install .*\[{name}\]"):
        REPORTERS[name](tmp_path)


def test_tensorboard_has_a_run_per_seed(tmp_path: Path):
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    run = run_with(tmp_path / "run", fl.callbacks.TensorBoard(tmp_path / "tb"))
    for seed in run.seeds:
        board = EventAccumulator(str(tmp_path / "tb" / f"seed-{seed}"))
        board.Reload()
        stages = run.results.seeds[seed].stages
        told = [(each.step, each.value) for each in board.Scalars("stage/accuracy")]
        assert told == [(s.stage, pytest.approx(s.accuracy, abs=1e-6)) for s in stages]
        losses = [(each.step, each.value) for each in board.Scalars("round/loss")]
        slow = [each.loss for stage in stages for each in stage.rounds]
        assert losses == [(n, pytest.approx(loss)) for n, loss in enumerate(slow, 1)]
        (last,) = board.Scalars("final/final_accuracy")
        assert last.value == pytest.approx(run.values("last")[seed])


def test_mlflow_has_a_run_per_seed_with_its_scenario(tmp_path: Path, monkeypatch):
    pytest.importorskip("mlflow")
    from mlflow.tracking import MlflowClient

    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    place = (tmp_path / "mlruns").as_uri()
    run = run_with(tmp_path / "run", fl.callbacks.MLflow("mine", tracking_uri=place))
    client = MlflowClient(place)
    experiment = client.get_experiment_by_name("mine")
    found = {
        each.data.params["seed"]: each for each in client.search_runs([experiment.experiment_id])
    }
    assert set(found) == {"1", "2"}
    for seed in run.seeds:
        kept = found[str(seed)]
        assert kept.info.status == "FINISHED"
        assert kept.data.params["devices.partition.rule"] == "dirichlet"
        history = client.get_metric_history(kept.info.run_id, "stage/accuracy")
        stages = run.results.seeds[seed].stages
        assert [(m.step, m.value) for m in history] == [(s.stage, s.accuracy) for s in stages]
        assert kept.data.metrics["final/final_accuracy"] == run.values("last")[seed]


def test_wandb_has_a_run_per_seed(tmp_path: Path, monkeypatch):
    pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_SILENT", "true")
    logged: list[tuple[str, dict[str, float]]] = []

    class Noting(fl.callbacks.WandB):
        """Keeps what the library held of each run when it ended."""

        def _end(self, place, *, finished):
            logged.append((place.name, dict(place.summary)))
            super()._end(place, finished=finished)

    noting = Noting("mine", mode="offline", dir=str(tmp_path))
    run = run_with(tmp_path / "run", noting)
    assert len(list((tmp_path / "wandb").glob("offline-run-*/*.wandb"))) == 2
    for name, held in logged:
        seed = int(name.rpartition(" ")[2])
        assert held["final/final_accuracy"] == run.values("last")[seed]
        assert held["stage/accuracy"] == run.results.seeds[seed].stages[-1].accuracy
