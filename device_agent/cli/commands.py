"""`fleetledger agent …`: set up, run, look at, and examine an agent on this device."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Annotated

import typer

from fleetledger.runtime.command_output import ActionReport, AsJson, confirm, show, show_action
from fleetledger.runtime.count_words import count_of
from fleetledger.runtime.exit_codes import ExitCode
from fleetledger.runtime.log_lines import LogFormat, LogLevel
from fleetledger.runtime.log_options import FormatOption, LevelOption
from fleetledger.runtime.log_setup import FORMAT_VARIABLE, LEVEL_VARIABLE
from fleetledger.runtime.shown_commands import ON_DEVICES, remember_home, with_homes

app = typer.Typer(no_args_is_help=True, help="Contribute from this device, run the fleet's model.")

HOME = Path("agent-home")


def _given(home: Path) -> Path:
    return remember_home(ON_DEVICES, home)


Home = Annotated[
    Path,
    typer.Option("--home", envvar="FLEETLEDGER_AGENT", help="The agent's folder.", callback=_given),
]


def _say(text: str) -> None:
    """Print lines for people; their commands find the home that was given."""
    typer.echo(with_homes(text))


def _done(*said: str, as_json: bool, wrote: tuple[Path, ...] = ()) -> None:
    """Say what was done, to people or to programs."""
    report = ActionReport(said=said, wrote=tuple(map(str, wrote)))
    show_action(report, _say, as_json=as_json)


@app.command()
def init(  # noqa: PLR0913, PLR0917 - each is one option of the command line
    device: Annotated[str, typer.Option(help="Name of this device, unique in the fleet.")],
    fleet: Annotated[str, typer.Option(help="Name of the fleet.")],
    broker_host: Annotated[str, typer.Option(help="Host of the MQTT broker.")] = "127.0.0.1",
    broker_port: Annotated[int, typer.Option(help="Port of the MQTT broker.")] = 1883,
    password_file: Annotated[
        str | None, typer.Option(help="File with this device's broker password, one line.")
    ] = None,
    data: Annotated[
        str, typer.Option(help="Folder of class-named folders; relative to --home or absolute.")
    ] = "data",
    no_data: Annotated[
        bool, typer.Option("--no-data", help="This device only runs models: it has no samples.")
    ] = False,
    coordinator_key: Annotated[
        str | None, typer.Option(help="The coordinator's public key; receipts must prove then.")
    ] = None,
    root: Annotated[
        Path | None,
        typer.Option(help="The fleet's root; only released models are installed then."),
    ] = None,
    evaluation: Annotated[
        str | None,
        typer.Option(help="Folder of held-out samples, on which models are measured here."),
    ] = None,
    tls: Annotated[
        bool, typer.Option("--tls", help="Speak TLS with the broker; believe the system's CAs.")
    ] = False,
    ca_file: Annotated[
        Path | None,
        typer.Option(help="Speak TLS; believe these CAs alone. Relative to --home or absolute."),
    ] = None,
    certificate_file: Annotated[
        Path | None, typer.Option(help="This device's certificate, for a broker that asks for it.")
    ] = None,
    key_file: Annotated[Path | None, typer.Option(help="The key of that certificate.")] = None,
    home: Home = HOME,
    as_json: AsJson = False,
) -> None:
    """Write a commented settings file."""
    from fleetledger.device_agent.cli.setting_up import tls_settings  # noqa: PLC0415
    from fleetledger.device_agent.home.home import NewHome, write_home  # noqa: PLC0415
    from fleetledger.device_agent.home.pinned_root import read_root  # noqa: PLC0415 - with what needs it
    from fleetledger.schemas import keys, values  # noqa: PLC0415
    from fleetledger.transport.mqtt_settings import read_host  # noqa: PLC0415

    new = NewHome(
        device=values.DeviceId(device),
        fleet=values.FleetId(fleet),
        host=read_host(broker_host),
        port=broker_port,
        data_folder=None if no_data else data,
        password_file=password_file,
        coordinator_key=None if coordinator_key is None else keys.read_verify_key(coordinator_key),
        root=None if root is None else read_root(root, values.FleetId(fleet)),
        tls=tls_settings(tls, ca_file, certificate_file, key_file),
        evaluation_folder=evaluation,
    )
    path = write_home(home, new)
    _done(f"wrote {path}; next: `fleetledger agent doctor`", as_json=as_json, wrote=(path,))


@app.command()
def install(  # noqa: PLR0913, PLR0917 - each is one option of the command line
    kit: Annotated[
        Path, typer.Argument(help="The folder that the operator made.", file_okay=False)
    ],
    unit: Annotated[
        Path | None,
        typer.Option(help="Folder for the systemd unit: /etc/systemd/system.", file_okay=False),
    ] = None,
    user: Annotated[
        str | None, typer.Option(help="Whose the home becomes, and whose rights the agent has.")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would be done, and do nothing.")
    ] = False,
    yes: Annotated[
        bool, typer.Option("--yes", help="Do not ask about broker and folders.")
    ] = False,
    home: Home = HOME,
    as_json: AsJson = False,
) -> None:
    """Set this device up by its kit: home, secrets, settings, enrolment, unit."""
    from fleetledger.device_agent.cli.setting_up import KitInstallation  # noqa: PLC0415 - with what needs it

    found = KitInstallation.of(kit, home, unit, user)
    if found.question and not dry_run:
        confirm(found.question, yes=yes, way_out="say --yes if they are the right ones")
    said = []
    for step in found.steps():
        said.append(f"would {step.text}" if dry_run else step.text)
        if not dry_run:
            step.do()
    if not dry_run:
        said.append(f"next: `fleetledger agent doctor`; then delete {kit}, a secret")
    _done(*said, as_json=as_json, wrote=() if dry_run else (found.home,))


@app.command()
def enrol(
    token: Annotated[
        str | None,
        typer.Argument(
            help="The operator's token. Left out, it is asked for or read from standard input; "
            "given here, other users of this device see it in the list of processes."
        ),
    ] = None,
    home: Home = HOME,
    as_json: AsJson = False,
) -> None:
    """Give this device a key of its own, by the operator's token; the agent must be stopped."""
    from fleetledger.device_agent.cli.enrolment import enrol as enrol_device  # noqa: PLC0415 - with what needs it

    _done(enrol_device(home, _read_token() if token is None else token), as_json=as_json)


def _read_token() -> str:
    if sys.stdin.isatty():
        return str(typer.prompt("Token", hide_input=True, err=True))
    return sys.stdin.readline()


@app.command("rotate-key")
def rotate_key(home: Home = HOME, as_json: AsJson = False) -> None:
    """Give this device another key, for which its present one signs; the agent must be stopped."""
    from fleetledger.device_agent.cli.enrolment import rotate_key as rotate  # noqa: PLC0415 - with what needs it

    _done(rotate(home), as_json=as_json)


@app.command()
def run(
    home: Home = HOME,
    log_format: FormatOption = LogFormat.TEXT,
    log_level: LevelOption = LogLevel.INFO,
) -> None:
    """Contribute, receive models, measure them, until stopped."""
    os.environ[FORMAT_VARIABLE], os.environ[LEVEL_VARIABLE] = log_format.value, log_level.value
    # The command line's own machinery would stay in memory for as long as the agent runs.
    paths = [os.environ.get("PYTHONPATH", ""), str(Path(__file__).parents[3])]
    os.environ["PYTHONPATH"] = os.pathsep.join(path for path in paths if path)
    sys.stdout.flush()
    os.execv(  # noqa: S606 - our own module, no shell
        sys.executable, [sys.executable, "-m", "fleetledger.device_agent", str(home)]
    )


@app.command()
def status(
    home: Home = HOME,
    json: Annotated[bool, typer.Option("--json", help="Print the status file as it is.")] = False,
) -> None:
    """Show what was counted, what waits, which model runs, and what keeps the agent from its work.

    Exits with 3 where no agent answers, and with 4 where one cannot do its work.
    """
    from fleetledger.device_agent.cli.report import status_lines  # noqa: PLC0415
    from fleetledger.device_agent.home.status_file import STATUS_FILE, read_status  # noqa: PLC0415
    from fleetledger.device_agent.program.fitness import hindrances, is_answering  # noqa: PLC0415 - with what needs it

    path = home / STATUS_FILE
    found = read_status(path)
    age = 0.0 if found is None else (time.time_ns() - found.written_ns) / 1e9
    answers = found is not None and is_answering(found, age)
    if not answers:  # an agent that answers has read its settings
        from fleetledger.device_agent.home.home import AgentHome  # noqa: PLC0415

        AgentHome.open(home)
    hindered = list(hindrances(home, found, age))
    if found is None:
        _say(f"{path}: no agent has run here yet; `fleetledger agent run`")
    elif json:
        typer.echo(found.model_dump_json(indent=1))
    else:
        for line in status_lines(found, age, running=answers):
            _say(line)
    for text in hindered:
        typer.echo(with_homes(f"hindered     {text}"), err=json)
    if not answers:
        raise typer.Exit(ExitCode.NOT_RUNNING)
    if hindered:
        raise typer.Exit(ExitCode.NEEDS_A_PERSON)


@app.command()
def forget(
    home: Home = HOME,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask before deleting.")] = False,
    checkpoint: Annotated[
        bool,
        typer.Option("--checkpoint", help="Believe another ledger, such as a backup."),
    ] = False,
    root: Annotated[
        bool, typer.Option("--root", help="Begin anew with the root in the agent's folder.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Delete what training keeps here beside the images; the agent must be stopped."""
    from fleetledger.device_agent.cli.deletion import (  # noqa: PLC0415
        forget_checkpoint,
        forget_trust,
        training_memory,
    )
    from fleetledger.device_agent.home.home import AgentHome  # noqa: PLC0415

    forgetting = [forget_checkpoint] * checkpoint + [forget_trust] * root
    if forgetting:
        _done(*(forget(AgentHome.open(home)) for forget in forgetting), as_json=as_json)
        return
    with training_memory(AgentHome.open(home)) as memory:
        lines = memory.describe() if memory is not None else ()
        if memory is None or not lines:
            _done("nothing is kept here of what this device has trained on", as_json=as_json)
            return
        for line in lines:
            typer.echo(f"to delete    {line}", err=as_json)
        typer.echo(
            "stays        your images, what else is in the outbox, the fleet's models", err=as_json
        )
        confirm("Delete it?", yes=yes, way_out="say --yes if it is to be deleted")
        memory.delete()
        _done("deleted", as_json=as_json)


@app.command("resubmit")
def resubmit_parts(home: Home = HOME, as_json: AsJson = False) -> None:
    """Count the images of refused parts again, in new parts; the agent must be stopped."""
    from fleetledger.device_agent.cli.resubmission import resubmit  # noqa: PLC0415
    from fleetledger.device_agent.home.home import AgentHome  # noqa: PLC0415 - with what needs it

    _done(resubmit(AgentHome.open(home)), as_json=as_json)


@app.command()
def segment(
    pictures: Annotated[
        list[Path], typer.Argument(help="Files of pictures.", metavar="PICTURE...")
    ],
    out: Annotated[Path, typer.Option("--out", help="Folder for masks, overlays and legend.")],
    home: Home = HOME,
    as_json: AsJson = False,
) -> None:
    """Write what the active model makes of pictures' pixels: masks, overlays, and a legend."""
    from fleetledger.device_agent.home.home import AgentHome  # noqa: PLC0415 - with what needs it
    from fleetledger.device_agent.models.segmentation import active_model, segment  # noqa: PLC0415

    faults = 0
    for done in segment(active_model(AgentHome.open(home)), pictures, out):
        faults += bool(done.fault)
        told = f"{done.picture}: {done.fault or ', '.join(done.classes)}"
        typer.echo(told, err=as_json or bool(done.fault))
    said = f"wrote {len(pictures) - faults} of {count_of(len(pictures), 'mask')} to {out}"
    _done(said, as_json=as_json, wrote=(out,))
    if faults:
        raise typer.Exit(ExitCode.FAILED)


@app.command()
def predict(
    files: Annotated[
        list[Path], typer.Argument(help="Files of pictures, texts or arrays.", metavar="FILE...")
    ],
    most: Annotated[int, typer.Option(help="Classes of each file, at most.", min=1)] = 3,
    home: Home = HOME,
    as_json: AsJson = False,
) -> None:
    """Say what the active model makes of files: classes, probabilities, and how much it doubts."""
    from fleetledger.device_agent.models.inference import predictions  # noqa: PLC0415 - with what needs it
    from fleetledger.device_agent.models.inference.running_model import RunningModel  # noqa: PLC0415

    with RunningModel.open(home) as model:
        report = predictions.predict(model.loaded(), files, most)
    show(report, as_json=as_json)
    if report.faults:
        raise typer.Exit(ExitCode.FAILED)


@app.command()
def serve(
    home: Home = HOME,
    tcp: Annotated[
        str | None,
        typer.Option(
            help="Listen there instead of on HOME/model.sock; who reaches it may ask the model.",
            metavar="HOST:PORT",
        ),
    ] = None,
) -> None:
    """Answer applications over HTTP with the active model: predict, segment, embed, events."""
    try:
        from fleetledger.device_agent.apps.http import server  # noqa: PLC0415 - needs the extra `serve`
    except ModuleNotFoundError as error:
        raise _missing("serve", error) from error
    server.serve(home, None if tcp is None else server.address_of(tcp), typer.echo)


def _missing(verb: str, error: ModuleNotFoundError) -> Exception:
    """Return the error of a verb whose extra, of the verb's name, is not installed."""
    from fleetledger.device_agent.errors import MissingError  # noqa: PLC0415 - with what needs it
    from fleetledger.runtime.pip_command import pip_install  # noqa: PLC0415 - as above

    return MissingError(f"agent {verb} needs {error.name}: {pip_install(verb)}")


@app.command()
def label(  # noqa: PLR0913, PLR0917 - each is one option of the command line
    home: Home = HOME,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(help="Port to listen on; 0 for any that is free.", min=0, max=65535)
    ] = 8789,
    allowed_host: Annotated[
        list[str] | None,
        typer.Option(help="Name under which it may be reached; may be given several times."),
    ] = None,
    tls_cert: Annotated[
        Path | None, typer.Option(help="Certificate chain, PEM.", dir_okay=False)
    ] = None,
    tls_key: Annotated[Path | None, typer.Option(help="Its key, PEM.", dir_okay=False)] = None,
    hold_out: Annotated[
        int,
        typer.Option(help="Put one image in so many into the evaluation folder; 0: none.", min=0),
    ] = 0,
    link: Annotated[
        bool, typer.Option("--link", help="Print another link to the program that runs, and end.")
    ] = False,
) -> None:
    """Show what the model doubts on a page, where its owner says what it is."""
    try:
        from fleetledger.device_agent.apps.label_page import program  # noqa: PLC0415 - needs the extra `label`
        from fleetledger.transport.pages.server import ListenAddress  # noqa: PLC0415
    except ModuleNotFoundError as error:
        raise _missing("label", error) from error
    listening = ListenAddress.of(host, port, allowed_host or (), tls_cert, tls_key)
    if link:
        typer.echo(program.link(home, listening))
    else:
        program.serve(home, listening, hold_out, typer.echo)


@app.command()
def doctor(home: Home = HOME, as_json: AsJson = False) -> None:
    """Say what this device can run, what is missing, and the command that mends it."""
    from fleetledger.device_agent.cli.doctor import DoctorReport, examine  # noqa: PLC0415 - what an agent runs on

    report = DoctorReport.of(examine(home))
    show(report, as_json=as_json)
    if not report.ready:
        raise typer.Exit(ExitCode.FAILED)
