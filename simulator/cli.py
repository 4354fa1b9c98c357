"""`fleetledger simulate` and `fleetledger demo`: fleets on this machine."""

from __future__ import annotations

import signal
from enum import Enum
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from fleetledger.runtime.command_output import AsJson

if TYPE_CHECKING:
    from fleetledger.simulator.verbs import DashboardOptions

DEFAULT_COMMAND = "run"


class DefaultGroup(TyperGroup):
    """A group whose command `run` need not be named: `simulate digits` is `simulate run digits`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:  # noqa: ANN401 - Typer's own Click
        """Put the default command before arguments that name none and do not ask for help."""
        named = (*self.commands, *ctx.help_option_names)
        if args and args[0] not in named:
            args = [DEFAULT_COMMAND, *args]
        rest: list[str] = super().parse_args(ctx, args)
        return rest


simulate = typer.Typer(cls=DefaultGroup, no_args_is_help=True)


class EngineOption(str, Enum):
    """On what the fleet runs."""

    inprocess = "inprocess"
    mqtt = "mqtt"
    ray = "ray"


ScenarioArgument = Annotated[
    str | None, typer.Argument(help="Name of a scenario that ships, or a TOML file.")
]
Changes = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="FIELD=VALUE",
        help="Another value for a field, like method.settings.ridge=1e5; may be repeated.",
    ),
]
LeftOut = Annotated[
    list[str] | None,
    typer.Option(
        "--unset",
        metavar="FIELD",
        help="Leave a field out, like stages.order beside --set stages.lists; may be repeated.",
    ),
]
Out = Annotated[
    Path | None,
    typer.Option(help="Folder of the run; empty or new.", show_default="runs/<name>-<time>"),
]
Engine = Annotated[
    EngineOption | None,
    typer.Option(
        help="All in this process, a broker and a process for each agent, or workers on Ray."
    ),
]
Address = Annotated[
    str | None,
    typer.Option(
        metavar="HOST:PORT",
        help="Train in workers on this cluster of Ray; implies --engine ray.",
    ),
]
Seeds = Annotated[
    str | None, typer.Option(metavar="N,N", help="Seeds, like 1,2,3: one run of the fleet each.")
]
Resume = Annotated[
    Path | None, typer.Option(metavar="RUN", help="Go on with the run in this folder.")
]
BudgetOption = Annotated[
    float | None,
    typer.Option(
        metavar="SECONDS",
        min=0,
        help="Stop after this long, when the round or stage is done; --resume goes on.",
    ),
]
Dashboard = Annotated[
    bool, typer.Option("--dashboard", help="Show the run on pages while it goes; prints a link.")
]
DashboardPort = Annotated[
    int | None,
    typer.Option(
        metavar="PORT",
        min=0,
        max=65535,
        help="Port of the pages; 0 for any that is free.",
        show_default="8787, or any that is free",
    ),
]
ReportTo = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME",
        help="Also report rounds and stages to tensorboard, mlflow, wandb or another that is "
        "installed; may be repeated.",
    ),
]
Figures = Annotated[
    str | None,
    typer.Option(metavar="KIND,KIND", help="Also write every picture as svg, pdf or both."),
]
Tiny = Annotated[
    bool,
    typer.Option(
        "--tiny",
        help="Cut to one tiny step, to try it out; what is not at hand is made up.",
    ),
]
ListAsJson = Annotated[bool, typer.Option("--json", help="With --list: print it as JSON.")]
ListShipped = Annotated[bool, typer.Option("--list", help="List the scenarios that ship.")]
Show = Annotated[
    str | None, typer.Option(metavar="NAME", help="Print a scenario or study that ships.")
]


@simulate.command(DEFAULT_COMMAND)
def run_scenario(  # noqa: PLR0913, PLR0917 - each is one option of the command line
    scenario: ScenarioArgument = None,
    changes: Changes = None,
    left_out: LeftOut = None,
    out: Out = None,
    engine: Engine = None,
    address: Address = None,
    seeds: Seeds = None,
    resume: Resume = None,
    budget: BudgetOption = None,
    report_to: ReportTo = None,
    figures: Figures = None,
    tiny: Tiny = False,
    dashboard: Dashboard = False,
    dashboard_port: DashboardPort = None,
    list_shipped: ListShipped = False,
    as_json: ListAsJson = False,
    show: Show = None,
) -> None:
    """Replay a fleet on this machine from a scenario: metrics, plots, report, ledger, model.

    The word `run` may be left out: fleetledger simulate digits
    """
    from fleetledger.simulator import verbs  # noqa: PLC0415 - the help page needs none of this

    _only_one({"SCENARIO": scenario, "--resume": resume, "--list": list_shipped, "--show": show})
    if address:
        _only_one({"--address": address, "--engine": engine not in {None, EngineOption.ray}})
        engine = EngineOption.ray
    told = [f"engine.kind={engine.value}"] if engine else []
    told += [f"engine.address={address}"] if address else []
    told += [f"seeds=[{seeds}]"] if seeds else []
    overrides = _overrides(left_out, changes, told)
    showing = _dashboard_options(wanted=dashboard, port=dashboard_port)
    kinds = tuple(kind.strip() for kind in figures.split(",")) if figures else ()
    how = verbs.RunArguments(budget, tuple(report_to or ()), kinds)
    if tiny:
        _only_one({"--tiny": True, "--resume": resume, "--list": list_shipped, "--show": show})
    _json_goes_with(list_shipped, as_json=as_json)
    if list_shipped:
        verbs.list_shipped(as_json=as_json)
    elif show is not None:
        verbs.show(show)
    elif resume is not None:
        _only_one({"--resume": resume, "--set": changes, "--out": out})
        _only_one({"--resume": resume, "--unset": left_out})
        _only_one({"--resume": resume, "--engine": engine, "--seeds": seeds})
        _stop_in_order()
        verbs.resume(resume, how, showing)
    else:
        assert scenario is not None
        _stop_in_order()
        verbs.simulate(scenario, overrides, out, how, showing, tiny=tiny)


@simulate.command()
def compare(
    runs: Annotated[list[Path], typer.Argument(help="Folders of finished runs.")],
    out: Annotated[
        Path | None,
        typer.Option(help="Folder for table and plot.", show_default="runs/compare-<time>"),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Put runs side by side in one table and one plot."""
    from fleetledger.simulator import verbs  # noqa: PLC0415 - the help page needs none of this

    verbs.compare(runs, out, as_json=as_json)


@simulate.command()
def sweep(  # noqa: PLR0913, PLR0917 - each is one option of the command line
    scenarios: Annotated[
        list[str] | None,
        typer.Argument(help="Names of scenarios or studies that ship, or TOML files."),
    ] = None,
    changes: Changes = None,
    left_out: LeftOut = None,
    vary: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FIELD=[VALUE,...]",
            help="Values for a field, in turn; of several such fields, all combinations.",
        ),
    ] = None,
    seeds: Seeds = None,
    jobs: Annotated[int, typer.Option(min=1, help="Runs beside each other on this machine.")] = 1,
    address: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT", help="Run on this cluster of Ray; 'local' starts one here."
        ),
    ] = None,
    cpus: Annotated[
        float, typer.Option(min=0.1, help="Processors of the cluster that each run takes.")
    ] = 1.0,
    out: Annotated[
        Path | None,
        typer.Option(help="Folder of the sweep; empty or new.", show_default="runs/sweep-<time>"),
    ] = None,
    resume: Annotated[
        Path | None, typer.Option(metavar="SWEEP", help="Go on with the sweep in this folder.")
    ] = None,
    tiny: Tiny = False,
    list_studies: Annotated[
        bool, typer.Option("--list", help="List the studies that ship.")
    ] = False,
    as_json: ListAsJson = False,
) -> None:
    """Run scenarios with many values and seeds: one table, one plot, with confidence intervals."""
    from fleetledger.simulator import verbs  # noqa: PLC0415 - the help page needs none of this
    from fleetledger.simulator.sweep.runs import Beside  # noqa: PLC0415

    _only_one({"SCENARIO": scenarios, "--resume": resume, "--list": list_studies})
    _json_goes_with(list_studies, as_json=as_json)
    if list_studies:
        verbs.list_studies(as_json=as_json)
        return
    beside = Beside(jobs, address, cpus)
    _stop_in_order()
    if resume is not None:
        _only_one({"--resume": resume, "--set": changes, "--vary": vary, "--out": out})
        _only_one({"--resume": resume, "--seeds": seeds, "--tiny": tiny, "--unset": left_out})
        verbs.resume_sweep(resume, beside)
        return
    told = _overrides(left_out, changes, [f"seeds=[{seeds}]"] if seeds else [])
    verbs.sweep(scenarios or [], told, vary or [], out, beside, tiny=tiny)


def _overrides(left_out: list[str] | None, changes: list[str] | None, told: list[str]) -> list[str]:
    """Return overrides in the order in which they count: what is left out may be set again."""
    from fleetledger.simulator.scenario.overrides import Unset  # noqa: PLC0415 - as above

    return [*map(Unset, left_out or []), *(changes or []), *told]


def _only_one(given: dict[str, object]) -> None:
    """Refuse options that exclude each other, and a call that says nothing."""
    named = [name for name, value in given.items() if value]
    if len(named) != 1:
        found = f"{' and '.join(named)} exclude each other" if named else "nothing to do"
        raise typer.BadParameter(f"{found}; give one of {', '.join(given)}")


def _json_goes_with(listed: bool, *, as_json: bool) -> None:
    """Refuse `--json` of a run, whose results are files."""
    if as_json and not listed:
        raise typer.BadParameter("--json goes with --list; a run's results are files in --out")


def _stop_in_order() -> None:
    """Make both signals an exception; a shell's background jobs even ignore SIGINT."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _interrupt)


class FormOption(str, Enum):
    """How a device writes its statistics."""

    exact = "exact"
    compact = "compact"


class BrokerOption(str, Enum):
    """Which MQTT broker is started."""

    auto = "auto"
    mosquitto = "mosquitto"
    amqtt = "amqtt"


def demo(  # noqa: PLR0913, PLR0917 - each is one option of the command line
    out: Annotated[
        Path | None,
        typer.Option(help="Folder of the run; empty or new.  [default: runs/demo-<time>]"),
    ] = None,
    form: Annotated[
        FormOption, typer.Option(help="Statistics as an exact Gram triangle or a compact factor.")
    ] = FormOption.compact,
    broker: Annotated[
        BrokerOption, typer.Option(help="auto takes mosquitto where it is installed, else amqtt.")
    ] = BrokerOption.auto,
    seed: Annotated[int, typer.Option(help="Decides split, partition and random map.", min=0)] = 0,
    agents: Annotated[int, typer.Option(help="Number of devices.", min=1, max=50)] = 5,
    dashboard: Dashboard = False,
    dashboard_port: DashboardPort = None,
) -> None:
    """Let a fleet of real processes on this machine learn handwritten digits, two at a time.

    The scenario `demo` of `fleetledger simulate`, with these options as settings of it.
    """
    from fleetledger.simulator import verbs  # noqa: PLC0415 - the help page needs none of this

    showing = _dashboard_options(wanted=dashboard, port=dashboard_port)
    _stop_in_order()
    verbs.simulate("demo", _of_demo(form, broker, seed, agents), out, dashboard=showing)


def _dashboard_options(*, wanted: bool, port: int | None) -> DashboardOptions | None:
    """Return whether and where a dashboard is wanted; refuse a port without one."""
    from fleetledger.simulator.verbs import DashboardOptions  # noqa: PLC0415 - as above

    if port is not None and not wanted:
        raise typer.BadParameter("--dashboard-port says where --dashboard is; give both")
    return DashboardOptions(port) if wanted else None


def _of_demo(form: FormOption, broker: BrokerOption, seed: int, agents: int) -> list[str]:
    """Return the demo's options as changes to its scenario."""
    import numpy as np  # noqa: PLC0415 - as above

    dealing = np.random.SeedSequence(seed).generate_state(5).tolist()
    return [
        f"method.settings.form={form.value}",
        f"engine.broker={broker.value}",
        f"seeds=[{seed}]",
        f"method.settings.map_seed={seed}",
        f"devices.partition.seeds={dealing}",
        f"devices.count={agents}",
    ]


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt
