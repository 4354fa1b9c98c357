"""A run from its scenario to its report, in one go or in several."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from rich.console import Console

from fleetledger.methods.descriptor import LEARN
from fleetledger.methods.registry import descriptor
from fleetledger.runtime.pip_command import pip_install
from fleetledger.simulator.callbacks import Callback
from fleetledger.simulator.errors import RunError
from fleetledger.simulator.metrics.measurement import measure_seed
from fleetledger.simulator.metrics.plan_counts import PlanCounts
from fleetledger.simulator.metrics.results import RunResults, summarise
from fleetledger.simulator.metrics.seed_metrics import SeedMetrics
from fleetledger.simulator.report.pictures.style import KINDS
from fleetledger.simulator.run.durable import replace_file
from fleetledger.simulator.run.engines import make_engine
from fleetledger.simulator.run.expectation import Expectation
from fleetledger.simulator.run.facts import Material, RunFacts, State, release
from fleetledger.simulator.run.folder import RunFolder
from fleetledger.simulator.run.preparation import PreparedSeed
from fleetledger.simulator.run.progress import Budget, BudgetSpentError, Screen
from fleetledger.simulator.run.reporting import Reporting
from fleetledger.simulator.run.seed_run import MakeEngine, run_seed
from fleetledger.simulator.scenario.loading import parse_scenario, scenario_to_toml
from fleetledger.simulator.scenario.model import Scenario
from fleetledger.simulator.scenario.trainer import JOINT, trainer_of

EXTRAS = {"onnxruntime": "cpu", "torch": "train"}
"""What a method's descriptor may ask for -> the extra that installs it."""


@dataclass(frozen=True)
class RunOptions:
    """How a run is carried out; none of it changes what comes out."""

    budget: Budget | None = None
    callbacks: tuple[Callback | str, ...] = ()
    """Told of rounds, stages and the end; a name is one of `REPORTERS`."""
    figures: tuple[str, ...] = ()
    """Formats in which every picture is written beside the PNG of the report."""
    report: bool = True
    """Whether tables, pictures and the page are written, or the numbers alone."""


_PLAIN = RunOptions()


@contextmanager
def stopped_as_error() -> Iterator[None]:
    """Raise `RunError` where a run was stopped by hand, for commands that then end."""
    try:
        yield
    except KeyboardInterrupt as error:
        if not error.args:  # before the run had begun, or twice
            raise
        raise RunError(str(error)) from error


@dataclass(frozen=True)
class _Run:
    """What all steps of a run share."""

    scenario: Scenario
    folder: RunFolder
    facts: RunFacts
    make_engine: MakeEngine
    expectation: Expectation
    options: RunOptions


def run_scenario(
    scenario: Scenario,
    out: Path,
    console: Console,
    make_engine: MakeEngine = make_engine,
    options: RunOptions = _PLAIN,
) -> RunResults:
    """Run a scenario into the folder `out`, which is empty or new, and write its report.

    Everything that can be checked is checked before anything slow begins. Raises `RunError` when
    its budget is spent, and `KeyboardInterrupt` with the way out when it was interrupted; the
    folder can be gone on with by `resume_run`.
    """
    check_runs(scenario)
    _check_figures(options)
    RunFolder.check_free(out)
    with ExitStack() as stack:
        reporting = stack.enter_context(_reporting(scenario, out, options))
        screen = stack.enter_context(_screen(console, scenario, options, reporting))
        screen.expectation = expectation = Expectation.of(scenario)
        screen.say_if_any(expectation.at_start())
        material = _survey(scenario, screen)
        folder = RunFolder.create(out)
        with folder.locked():
            replace_file(folder.scenario, scenario_to_toml(scenario).encode())
            facts = RunFacts.begin(folder.scenario_digest(), material)
            run = _Run(scenario, folder, facts, make_engine, expectation, options)
            return _carry_out(run, screen)


def resume_run(
    root: Path,
    console: Console,
    make_engine: MakeEngine = make_engine,
    options: RunOptions = _PLAIN,
) -> RunResults:
    """Go on with a run: finished stages and seeds are kept, and the report is written.

    The stored scenario rules. Raises `RunError` where it, the data set or the frozen network is no
    longer what the run was begun with; another version of the program is only told. Stops as
    `run_scenario` does.
    """
    folder = RunFolder.open(root)
    _check_figures(options)
    with ExitStack() as stack:
        stack.enter_context(folder.locked())
        facts = RunFacts.read(folder.facts)
        scenario = stored_scenario(folder, facts)
        check_runs(scenario)
        reporting = stack.enter_context(_reporting(scenario, folder.root, options))
        screen = stack.enter_context(_screen(console, scenario, options, reporting))
        screen.expectation = expectation = Expectation.of(scenario)
        finished = {seed: len(folder.seed(seed).records()) for seed in scenario.seeds}
        screen.say_if_any(expectation.at_start(finished))
        _compare(folder, facts.material, _survey(scenario, screen))
        if facts.sessions[-1].release != release():
            screen.say(
                f"this run was begun with fleetledger {facts.sessions[-1].release} and goes on "
                f"with {release()}; its stages may differ in more than the seed"
            )
        run = _Run(scenario, folder, facts.gone_on(), make_engine, expectation, options)
        return _carry_out(run, screen)


@contextmanager
def _reporting(scenario: Scenario, out: Path, options: RunOptions) -> Iterator[Reporting | None]:
    """Yield the callbacks of a run, closed in the end; None without any."""
    if not options.callbacks:
        yield None
        return
    with closing(Reporting(options.callbacks, out, scenario)) as reporting:
        yield reporting


def _screen(
    console: Console, scenario: Scenario, options: RunOptions, reporting: Reporting | None
) -> Screen:
    seeds = len(scenario.seeds)
    return Screen(console, seeds, budget=options.budget, reporting=reporting)


def _check_figures(options: RunOptions) -> None:
    for kind in options.figures:
        if kind not in KINDS:
            raise RunError(f"figures: {kind!r}; give some of {', '.join(KINDS)}")


def stored_scenario(folder: RunFolder, facts: RunFacts) -> Scenario:
    """Return the scenario of a run that was begun; raise `RunError` where its file was changed."""
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
    with _recorded(run) as facts:
        seeds = {
            seed: _seed(run, position, seed, screen)
            for position, seed in enumerate(run.scenario.seeds)
        }
        screen.phase("writing the report")
        results = summarise(run.scenario, facts.place, seeds)
        if run.options.report:
            from fleetledger.simulator.report.files import write_report  # noqa: PLC0415 - matplotlib is heavy

            write_report(run.folder.root, results, run.options.figures)
        else:
            results.write(run.folder.root)
    if screen.reporting is not None:
        from fleetledger.simulator.report.run import Run  # noqa: PLC0415 - as above

        screen.reporting.done(Run(run.folder.root, results))
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
        raise KeyboardInterrupt(
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
