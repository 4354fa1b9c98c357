"""`fleetledger rollout …`: take a model to the fleet group by group, and see what came of it."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from fleetledger.coordinator import completion
from fleetledger.coordinator.cli.common import Yes, say
from fleetledger.coordinator.core.commands import Command
from fleetledger.coordinator.core.phrases import count_of
from fleetledger.coordinator.home_option import HOME, Home
from fleetledger.coordinator.home_reports import rollout_of, rollouts_of
from fleetledger.coordinator.ledger.audit import exported_entries
from fleetledger.coordinator.ledger.entries import Entry
from fleetledger.coordinator.ledger.reader import LedgerReader, ledger_of
from fleetledger.coordinator.live.file import online_now
from fleetledger.coordinator.paths import ledger_path
from fleetledger.coordinator.program.command_client import carried_out
from fleetledger.coordinator.reports.rollouts.lookup import one_rollout
from fleetledger.coordinator.reports.rollouts.plan_words import Approver, OnFail, ShadowIn, plan_of
from fleetledger.coordinator.reports.rollouts.preview import RolloutPreview, preview
from fleetledger.coordinator.reports.rollouts.report import (
    RolloutAnswer,
    RolloutByDevices,
)
from fleetledger.coordinator.reports.rollouts.rollout_waits import preview_waits
from fleetledger.coordinator.topics.rollouts.commands import (
    ApproveGroup,
    EndRollout,
    PauseRollout,
    PlanRollout,
    ResumeRollout,
    StartRollout,
)
from fleetledger.coordinator.topics.rollouts.verdict_check import verify_rollout
from fleetledger.coordinator.trust.release_key import signed_group, waits_for_key
from fleetledger.runtime import command_output
from fleetledger.runtime.command_output import AsJson, confirm, show_report
from fleetledger.runtime.count_words import agree
from fleetledger.runtime.exit_codes import ExitCode

app = typer.Typer(
    no_args_is_help=True, help="Rollouts: plan, start, watch, pause, take back, verify."
)

Number = Annotated[
    int, typer.Argument(help="Number of a rollout.", min=1, autocompletion=completion.rollouts)
]
Reason = Annotated[str, typer.Option(help="Why; it stays in the ledger.")]


@app.command()
def plan(  # noqa: PLR0913, PLR0917 - each is one option of the command line
    version: Annotated[
        int, typer.Argument(help="Version of a model.", min=1, autocompletion=completion.versions)
    ],
    file: Annotated[
        Path | None,
        typer.Option(help="TOML file with a plan; what is said here besides comes before it."),
    ] = None,
    groups: Annotated[
        str | None,
        typer.Option(help="Sizes, each with the groups before it; 1,5%,25%,100% if absent."),
    ] = None,
    tag: Annotated[
        list[str] | None,
        typer.Option(
            help="Only devices with this tag, NAME or NAME=VALUE.", autocompletion=completion.tags
        ),
    ] = None,
    shadow: Annotated[
        ShadowIn | None, typer.Option(help="Groups that measure it before they run it.")
    ] = None,
    soak: Annotated[
        str | None, typer.Option(help="Time after each group that passed: 90s, 30m, 1h.")
    ] = None,
    deadline: Annotated[str | None, typer.Option(help="Time for each group: 24h.")] = None,
    approve: Annotated[
        Approver | None, typer.Option(help="Who lets each group go; nobody has to if absent.")
    ] = None,
    hours: Annotated[
        str | None, typer.Option(help="When devices may switch, by their clocks: 22:00-05:00.")
    ] = None,
    on_fail: Annotated[OnFail | None, typer.Option(help="What a gate that fails does.")] = None,
    gate: Annotated[
        list[str] | None, typer.Option(help="A limit, NAME=VALUE, such as latency=1.5 or =off.")
    ] = None,
    start: Annotated[bool, typer.Option("--start", help="Begin at once.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would happen, and plan nothing.")
    ] = False,
    yes: Yes = False,
    home: Home = HOME,
    as_json: AsJson = False,
) -> None:
    """Plan to take a version to the fleet group by group; say what will happen on how many."""
    words = {"groups": groups, "tags": tag, "shadow": shadow, "soak": soak, "deadline": deadline}
    words |= {"approve": approve, "hours": hours, "on_fail": on_fail, "gates": gate}
    chosen = plan_of(file, words)
    with ledger_of(home) as ledger:
        online, now_ns = online_now(home, time.time_ns()), time.time_ns()
        found = preview(ledger, version, chosen, online, now_ns, unsigned=waits_for_key(home))
    if not dry_run:
        if start and not as_json:
            command_output.draw(found)
        _sure(f"Start rollout {found.rollout}?", yes=yes or not start)
        answer = carried_out(home, PlanRollout(version=version, plan=chosen, start=start))
        told = {"planned": True, "answer": answer.text, "entries": answer.entries}
        found = found.model_copy(update=told)
    show_report(found, _answered if start and not dry_run else command_output.draw, as_json=as_json)


def _answered(found: RolloutPreview) -> None:
    say(found.answer)


@app.command("list")
def list_rollouts(home: Home = HOME, as_json: AsJson = False) -> None:
    """Show every rollout, newest first: how it stands, and on how many devices."""
    command_output.show(rollouts_of(home), as_json=as_json)


@app.command()
def show(
    number: Number,
    devices: Annotated[
        bool, typer.Option("--devices", help="Name every device with what became of it.")
    ] = False,
    home: Home = HOME,
    as_json: AsJson = False,
) -> None:
    """Show one rollout: why it stands where it stands, its gates by group, devices by state."""
    report = rollout_of(home, number)
    shown = RolloutByDevices(**dict(report)) if devices else report
    command_output.show(shown, as_json=as_json)


@app.command()
def approve(
    number: Number,
    group: Annotated[int | None, typer.Option(help="The next one if absent.", min=1)] = None,
    key: Annotated[
        Path | None,
        typer.Option(help="File of a release key that lets it go, by a signature.", dir_okay=False),
    ] = None,
    home: Home = HOME,
    as_json: AsJson = False,
) -> None:
    """Let a group of a rollout go, where its plan asks for that: by your word, or by a key."""
    if key is None:
        _act(home, number, ApproveGroup(rollout=number, group=group), as_json=as_json)
    else:
        signed = signed_group(home, number, group, key, time.time_ns())
        _act(home, number, signed, as_json=as_json)


@app.command()
def start(
    number: Number,
    yes: Yes = False,
    home: Home = HOME,
    as_json: AsJson = False,
) -> None:
    """Begin a rollout that was planned, in place of the one that is open."""
    now_ns = time.time_ns()
    with ledger_of(home) as ledger:
        one = one_rollout(ledger, number, now_ns)
    first, sizes = one.groups[0], [group.devices for group in one.groups]
    if not as_json:
        say(
            f"model {one.rollout.version} goes to {count_of(sum(sizes))}, "
            f"to {first.devices} of them first"
        )
        say(preview_waits(one.plan, sizes, now_ns, unsigned=waits_for_key(home)))
    _sure(f"Start rollout {number}?", yes=yes)
    _act(home, number, StartRollout(rollout=number), as_json=as_json)


@app.command()
def pause(number: Number, reason: Reason = "", home: Home = HOME, as_json: AsJson = False) -> None:
    """Let nothing further go out; devices keep what they run."""
    _act(home, number, PauseRollout(rollout=number, reason=reason), as_json=as_json)


@app.command()
def resume(number: Number, reason: Reason = "", home: Home = HOME, as_json: AsJson = False) -> None:
    """Let it go on in spite of what was found; what is found besides counts as before."""
    _act(home, number, ResumeRollout(rollout=number, reason=reason), as_json=as_json)


@app.command()
def abort(
    number: Number,
    reason: Reason = "",
    yes: Yes = False,
    home: Home = HOME,
    as_json: AsJson = False,
) -> None:
    """End it for good; devices keep what they run."""
    _end(home, number, EndRollout(rollout=number, reason=reason), yes=yes, as_json=as_json)


@app.command()
def back(
    number: Number,
    reason: Reason = "",
    yes: Yes = False,
    home: Home = HOME,
    as_json: AsJson = False,
) -> None:
    """End it for good; every device goes back to the former version."""
    ends = EndRollout(rollout=number, back=True, reason=reason)
    _end(home, number, ends, yes=yes, as_json=as_json)


@app.command()
def verify(
    number: Number,
    ledger: Annotated[
        Path | None,
        typer.Option(
            help="A copy of ledger.db, or a folder of `ledger export`; else that of --home."
        ),
    ] = None,
    home: Home = HOME,
    as_json: AsJson = False,
) -> None:
    """Make every verdict of a rollout again from the entries it names; it only reads."""
    with _entries_of(ledger, home) as entries:
        report = verify_rollout(entries, number)
    command_output.show(report, as_json=as_json)
    if not report.equal:
        raise typer.Exit(ExitCode.FAILED)


@contextmanager
def _entries_of(copy: Path | None, home: Path) -> Iterator[Iterable[Entry]]:
    """Give the entries of a home, of a copied database, or of an exported folder."""
    if copy is not None and copy.is_dir() and not ledger_path(copy).is_file():
        yield exported_entries(copy)
        return
    path = copy if copy is not None and copy.is_file() else ledger_path(copy or home)
    with LedgerReader.open_read_only(path) as ledger:
        yield ledger.entries()


def _act(home: Path, number: int, body: Command, *, as_json: bool) -> None:
    """Have a command carried out; say what came of it, and how the rollout stands then."""
    answer = carried_out(home, body)
    with ledger_of(home) as ledger:
        rollout = one_rollout(ledger, number, time.time_ns()).rollout
    report = RolloutAnswer(said=answer.text, entries=answer.entries, rollout=rollout)
    command_output.show(report, as_json=as_json)


def _end(home: Path, number: int, body: EndRollout, *, yes: bool, as_json: bool) -> None:
    with ledger_of(home) as ledger:
        one = one_rollout(ledger, number, time.time_ns()).rollout
    former = "the model before" if one.former is None else f"model {one.former}"
    what = (
        f"every device goes back to {former}"
        if body.back
        else "devices keep what they run, and nobody else gets it"
    )
    if not as_json:
        say(f"{count_of(one.ran)} {agree(one.ran, 'has', 'have')} run model {one.version}; {what}")
    _sure(f"End rollout {number}?", yes=yes)
    _act(home, number, body, as_json=as_json)


def _sure(question: str, *, yes: bool) -> None:
    confirm(question, yes=yes, way_out="say --yes")
