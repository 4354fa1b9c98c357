"""A run from its scenario to its report, in one go or in several."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from rich.console import Console

from fleetledger.methods.descriptor import LEARN
from fleetledger.methods.registry import descriptor
from fleetledger.runtime.pip_command import pip_install
from fleetledger.simulator.errors import RunError
from fleetledger.simulator.metrics.measurement import measure_seed
from fleetledger.simulator.metrics.plan_counts import PlanCounts
from fleetledger.simulator.metrics.results import RunResults, summarise
from fleetledger.simulator.metrics.seed_metrics import SeedMetrics
from fleetledger.simulator.run.durable import replace_file
from fleetledger.simulator.run.engines import make_engine
from fleetledger.simulator.run.expectation import Expectation
from fleetledger.simulator.run.facts import Material, RunFacts, State, release
from fleetledger.simulator.run.folder import RunFolder
from fleetledger.simulator.run.preparation import PreparedSeed
from fleetledger.simulator.run.progress import Budget, BudgetSpentError, Screen
from fleetledger.simulator.run.seed_run import MakeEngine, run_seed
from fleetledger.simulator.scenario.loading import parse_scenario, scenario_to_toml
from fleetledger.simulator.scenario.model import Scenario
from fleetledger.simulator.scenario.trainer import JOINT, trainer_of

EXTRAS = {"onnxruntime": "cpu", "torch": "train"}
"""What a method's descriptor may ask for -> the extra that installs it."""


@dataclass(frozen=True)
class _Run:
    """What all steps of a run share."""

    scenario: Scenario
    folder: RunFolder
    facts: RunFacts
    make_engine: MakeEngine
    expectation: Expectation


def run_scenario(
    scenario: Scenario,
    out: Path,
    console: Console,
    make_engine: MakeEngine = make_engine,
    budget: Budget | None = None,
) -> RunResults:
    """Run a scenario into the folder `out`, which is empty or new, and write its report.

    Everything that can be checked is checked before anything slow begins. Raises `RunError` when
    it was interrupted or its budget is spent; the folder can be gone on with by `resume_run`.
    """
    check_runs(scenario)
    RunFolder.check_free(out)
    with Screen(console, len(scenario.seeds), budget=budget) as screen:
        screen.expectation = expectation = Expectation.of(scenario)
        screen.say_if_any(expectation.at_start())
        material = _survey(scenario, screen)
        folder = RunFolder.create(out)
        with folder.locked():
            replace_file(folder.scenario, scenario_to_toml(scenario).encode())
            facts = RunFacts.begin(folder.scenario_digest(), material)
            return _carry_out(_Run(scenario, folder, facts, make_engine, expectation), screen)


def resume_run(
    root: Path,
    console: Console,
    make_engine: MakeEngine = make_engine,
    budget: Budget | None = None,
) -> RunResults:
    """Go on with a run: finished stages and seeds are kept, and the report is written.

    The stored scenario rules. Raises `RunError` where it, the data set or the frozen network is no
    longer what the run was begun with; another version of the program is only told.
    """
    folder = RunFolder.open(root)
    with folder.locked(), Screen(console, 1, budget=budget) as screen:
        facts = RunFacts.read(folder.facts)
        scenario = _stored_scenario(folder, facts)
        check_runs(scenario)
        screen.seeds = len(scenario.seeds)
        screen.expectation = expectation = Expectation.of(scenario)
        finished = {seed: len(folder.seed(seed).records()) for seed in scenario.seeds}
        screen.say_if_any(expectation.at_start(finished))
        _compare(folder, facts.material, _survey(scenario, screen))
        if facts.sessions[-1].release != release():
            screen.say(
                f"this run was begun with fleetledger {facts.sessions[-1].release} and goes on "
                f"with {release()}; its stages may differ in more than the seed"
            )
        run = _Run(scenario, folder, facts.gone_on(), make_engine, expectation)
        return _carry_out(run, screen)


def _stored_scenario(folder: RunFolder, facts: RunFacts) -> Scenario:
    if folder.scenario_digest() != facts.scenario:
        raise RunError(
            f"{folder.scenario}: was changed after the run had begun; put it back, or begin a new "
            f"run with it: fleetledger simulate {folder.scenario} --out FOLDER"
        )
    text = folder.scenario.read_text(encoding="utf-8")
    return parse_scenario(str(folder.scenario), text, folder.root)


def _survey(scenario: Scenario, screen: Screen) -> dict[int, Material]:
    """Load and plan every seed once, so that what is missing or wrong is told before the start."""
    material = {}
    for seed in scenario.seeds:
        screen.phase("looking at the data set and the plan")
        material[seed] = PreparedSeed.load(scenario, seed).material
    return material


def _compare(folder: RunFolder, begun: dict[int, Material], present: dict[int, Material]) -> None:
    for seed, former in begun.items():
        now = present[seed]
        if (former.train, former.test) != (now.train, now.test):
            raise RunError(
                f"{folder.root}: the data set is not the one that the run was begun with (seed "
                f"{seed}); put it back, or begin a new run"
            )
        if former.backbone != now.backbone:
            raise RunError(
                f"{folder.root}: the frozen network is not the one that the run was begun with; "
                "put its file or package back, or begin a new run"
            )


def _carry_out(run: _Run, screen: Screen) -> RunResults:
    """Bring all seeds to their end and write the report."""
    from fleetledger.simulator.report.files import write_report  # noqa: PLC0415 - matplotlib is heavy

    with _recorded(run) as facts:
        seeds = {
            seed: _seed(run, position, seed, screen)
            for position, seed in enumerate(run.scenario.seeds)
        }
        screen.phase("writing the report")
        results = summarise(run.scenario, facts.place, seeds)
        write_report(run.folder.root, results)
    return results


def _seed(run: _Run, position: int, seed: int, screen: Screen) -> SeedMetrics:
    folder = run.folder.seed(seed)
    run.expectation.seed_begins()
    loaded = PreparedSeed.load(run.scenario, seed)
    screen.seed(position, seed, len(folder.records()), len(loaded.plan.stages))
    prepared = loaded.prepare(screen)
    records, answers = run_seed(prepared, folder, run.make_engine, screen)
    counts = PlanCounts.of(loaded.plan, loaded.split.train.labels)
    metrics = measure_seed(records, answers, counts)
    return metrics.model_copy(update={"rollout": folder.rollout()})


@contextmanager
def _recorded(run: _Run) -> Iterator[RunFacts]:
    """Keep `run.json` true: running, and in the end done, stopped or failed."""
    run.facts.write(run.folder.facts)

    def end(state: State, problem: str | None = None) -> None:
        run.facts.ended(state, problem).write(run.folder.facts)

    try:
        yield run.facts
    except KeyboardInterrupt as error:
        end("stopped")
        raise RunError(
            "run: stopped by hand; to go on with it: fleetledger simulate --resume "
            f"{run.folder.root}"
        ) from error
    except BudgetSpentError as error:
        end("stopped")
        raise RunError(
            f"{error}; to go on with the run: fleetledger simulate --resume {run.folder.root}"
        ) from error
    except Exception as error:
        end("failed", str(error))
        raise
    end("done")


def check_runs(scenario: Scenario) -> None:
    """Raise `RunError` where a method of the scenario lacks a package here."""
    trainer = trainer_of(scenario)
    if scenario.method.name != JOINT:
        check_method_runs(scenario.method.name)
    if trainer is not None:
        check_method_runs(trainer.method)
    if scenario.rollout is not None and scenario.rollout.candidate.kind == "adapted":
        check_method_runs("rounds")


def check_method_runs(method: str) -> None:
    """Raise `RunError` with the command that mends it where the method lacks a package here."""
    missing = [name for name in sorted(descriptor(method).needs[LEARN]) if find_spec(name) is None]
    if missing:
        extras = ",".join(EXTRAS.get(name, "simulator") for name in missing)
        raise RunError(
            f"method.name: {method!r} needs {' and '.join(missing)}: {pip_install(extras)}"
        )
