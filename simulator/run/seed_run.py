"""One seed of a run: stage by stage through the engine, each kept before the next begins."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from fleetledger.learning.errors import LearningError
from fleetledger.learning.numerics.accelerator import Accelerator, accelerated_by
from fleetledger.runtime.count_words import count_of
from fleetledger.simulator.datasets.segmentation.tasks import TaskScenes
from fleetledger.simulator.engines.interface import Engine, Prepared, RollsOut
from fleetledger.simulator.errors import EngineError, RunError
from fleetledger.simulator.features.providers import torch_has_cuda
from fleetledger.simulator.metrics.any_answers import AnyAnswers
from fleetledger.simulator.metrics.plan_counts import PlanCounts
from fleetledger.simulator.metrics.seed_metrics import StageMetrics
from fleetledger.simulator.metrics.stage_measurement import ScoredSeed, measure_stage
from fleetledger.simulator.plan.fleet_plan import FleetPlan
from fleetledger.simulator.records import StageRecord
from fleetledger.simulator.report.tables.rollouts import verdict_sentence
from fleetledger.simulator.run.evaluation import copy_model
from fleetledger.simulator.run.folder import SeedFolder
from fleetledger.simulator.run.progress import Screen
from fleetledger.simulator.run.sample_evaluation import SampleEvaluation
from fleetledger.simulator.run.scene_evaluation import SceneEvaluation
from fleetledger.simulator.run.stage_evaluation import StageEvaluation
from fleetledger.simulator.scenario.sections import EngineSettings

MakeEngine = Callable[[Prepared, Path, Screen], Engine]


def run_seed(
    prepared: Prepared, folder: SeedFolder, make_engine: MakeEngine, screen: Screen
) -> tuple[tuple[StageRecord, ...], AnyAnswers]:
    """Bring a seed to its end from wherever it is; return its records and answers.

    Finished stages are kept; one that was begun is finished by the engine. Where the scenario ends
    with a rollout, its record stays in the folder. Raises `EngineError` when the fleet does not get
    through, `RunError` for a folder of another run.
    """
    records = list(folder.records())
    stages = prepared.plan.stages
    _check_records(folder, records, prepared.plan)
    evaluation = _evaluation(prepared)
    kept = evaluation.kept(folder, len(records))
    if screen.reporting is not None:
        screen.reporting.seed(prepared.plan.seed, records, len(stages))
    rolls_out = prepared.scenario.rollout is not None and folder.rollout() is None
    if len(records) < len(stages) or rolls_out:
        faster = accelerator_of(prepared.scenario.engine)
        with accelerated_by(faster), closing(make_engine(prepared, folder.root, screen)) as engine:
            for stage in stages[len(records) :]:
                screen.stage(stage.number, len(stages))
                learned = engine.learn(stage)
                model = engine.model_folder(learned)
                record, kept = evaluation.after(stage, learned, model, kept)
                if stage is stages[-1]:
                    copy_model(model, folder.model)
                folder.finish_stage(record, kept)
                records.append(record)
                seed = prepared.plan.seed
                screen.stage_done(seed, record, _told(seed, record, kept.answers))
                if screen.reporting is not None:
                    screen.reporting.stage(record, _measured(prepared, record, kept.answers))
            if rolls_out:
                screen.stage(len(stages), len(stages))
                _roll_out(engine, folder, screen)
    return tuple(records), kept.answers


def _measured(prepared: Prepared, record: StageRecord, answers: AnyAnswers) -> StageMetrics:
    """Return the metrics of the stage that was finished last."""
    counts = PlanCounts.of(prepared.plan, prepared.split.train.labels)
    return measure_stage(record, ScoredSeed(answers, counts, answers.learned(counts.class_names)))


def _roll_out(engine: Engine, folder: SeedFolder, screen: Screen) -> None:
    """Let a candidate go out, and keep what became of it."""
    assert isinstance(engine, RollsOut), "scenarios of other engines have no rollout"
    record = engine.roll_out()
    folder.finish_rollout(record)
    screen.say(verdict_sentence(record))


def _evaluation(prepared: Prepared) -> StageEvaluation:
    test = prepared.split.test
    if isinstance(test, TaskScenes):
        return SceneEvaluation(prepared, test)
    return SampleEvaluation(prepared)


def _check_records(folder: SeedFolder, records: list[StageRecord], plan: FleetPlan) -> None:
    planned = [set(plan.names(stage.classes)) for stage in plan.stages]
    fits = len(records) <= len(planned) and all(
        record.stage == number and set(record.class_names) <= planned[number - 1]
        for number, record in enumerate(records, start=1)
    )
    if not fits:
        raise RunError(
            f"{folder.root}: its finished stages are not those of the scenario; go on with the "
            "scenario that the run was begun with, or begin a new run"
        )


def _told(seed: int, record: StageRecord, answers: AnyAnswers) -> str:
    """Return the line that stays when a stage is finished."""
    score = "" if answers.SCORE == "accuracy" else f"{answers.SCORE} "
    return (
        f"seed {seed}, stage {record.stage}: {score}{100 * answers.score(record.stage):.2f} % on "
        f"{count_of(len(record.model_classes), 'class', 'classes')}{_beside(record)}, "
        f"{count_of(record.contributions, 'contribution')}, "
        f"{record.seconds.get('total', 0):.1f} s{_pace(record)}"
    )


def _pace(record: StageRecord) -> str:
    pace = record.answers_per_second
    return "" if pace is None else f", {pace:,.{0 if pace >= 100 else 1}f} answers/s"


def _beside(record: StageRecord) -> str:
    """Return what else is known of how well the stage was learned."""
    told = {"measured by the devices": record.accuracy_on_devices, "pooled": record.pooled_accuracy}
    return "".join(f", {100 * it:.2f} % {name}" for name, it in told.items() if it is not None)


def accelerator_of(engine: EngineSettings) -> Accelerator | None:
    """Return the GPU that computes for a fleet in this process; None where NumPy does.

    Raises `EngineError` where the GPU does not compute exactly.
    """
    if engine.kind == "mqtt" or engine.device == "cpu" or not torch_has_cuda():
        return None
    from fleetledger.learning.training.torch_accelerator import TorchAccelerator  # noqa: PLC0415 - an extra

    try:
        return TorchAccelerator("cuda")
    except LearningError as error:
        raise EngineError(f"engine.{error}") from error
