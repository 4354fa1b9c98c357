"""`fleetledger coordinator …`: set up, serve, and lead the fleet from stage to stage."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from shlex import quote
from typing import Annotated

import typer

from fleetledger.coordinator import completion
from fleetledger.coordinator import settings as settings_module
from fleetledger.coordinator.cli import common
from fleetledger.coordinator.cli.broker_config import broker_config
from fleetledger.coordinator.cli.provision import provision
from fleetledger.coordinator.cli.status import status
from fleetledger.coordinator.cli.trust import FirstRoot
from fleetledger.coordinator.core.phrases import some
from fleetledger.coordinator.errors import QuestionError
from fleetledger.coordinator.home_option import HOME, Home
from fleetledger.coordinator.home_reports import rounds_of, stages_of
from fleetledger.coordinator.program.tokens import invite
from fleetledger.coordinator.provisioning.broker_access import close_access, open_access
from fleetledger.coordinator.proxy import settings as proxy_settings
from fleetledger.coordinator.settings import (
    CoordinatorBrokerSettings,
    CoordinatorSettings,
    SecuritySettings,
)
from fleetledger.coordinator.topics.clock.commands import CorrectClock
from fleetledger.coordinator.topics.devices.choice import DeviceChoice
from fleetledger.coordinator.topics.devices.commands import AdmitDevice, SettleTwins
from fleetledger.coordinator.topics.keys.commands import RevokeKey
from fleetledger.coordinator.topics.rounds.commands import ResumeRounds
from fleetledger.coordinator.topics.stages.commands import CloseStage, OpenStage
from fleetledger.runtime import command_output
from fleetledger.runtime.command_output import ActionReport, AsJson, show
from fleetledger.runtime.count_words import count_of
from fleetledger.runtime.log_lines import LogFormat, LogLevel
from fleetledger.runtime.log_options import FormatOption, LevelOption
from fleetledger.runtime.shown_commands import PROGRAM
from fleetledger.schemas.values import BootId, DeviceId, FleetId
from fleetledger.transport.mqtt_settings import read_host

Device = Annotated[
    str,
    typer.Argument(help="Id of the device: its MQTT user name.", autocompletion=completion.devices),
]


def enrol(
    device: Device,
    hours: Annotated[
        float, typer.Option(help="How long the token may be used.", min=0.01, max=8760)
    ] = 24.0,
    home: Home = HOME,
    as_json: AsJson = False,
) -> None:
    """Print a token with which a device enrols a key of its own, once; admit it where needed."""
    invited = invite(home, DeviceId(device), hours)
    said = (
        *open_access(home),
        f"Give this line to the owner of {device}, and to nobody else; it works once, within "
        f"{count_of(hours, 'hour')}.",
        "On the device: `fleetledger agent enrol` (it asks for the line), then start the agent.",
    )
    report = ActionReport(said=said, entries=invited.entries, secret=invited.token.text)
    command_output.show_action(report, partial(common.say, as_json=True), as_json=as_json)


def revoke(
    device: Annotated[
        list[str] | None,
        typer.Argument(
            help="Ids of devices: their MQTT user names.", autocompletion=completion.devices
        ),
    ] = None,
    reason: Annotated[str, typer.Option(help="Why; it stays in the ledger.")] = "none was given",
    tag: common.Tagged = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask about several devices.")] = False,
    home: Home = HOME,
    as_json: AsJson = False,
) -> None:
    """Shut devices out, such as stolen ones, also at the broker, until they are enrolled anew."""

    def revoking(one: DeviceId) -> RevokeKey:
        return RevokeKey(device=one, reason=reason)

    chosen = DeviceChoice.read(device, tag)
    report = common.for_each(home, chosen, revoking, what="Shut out", yes=yes, then=close_access)
    common.show_action(report, as_json=as_json)


def settle(
    device: Device,
    installation: Annotated[
        str, typer.Option(help="The one that goes on, as `coordinator status` names it.")
    ],
    home: Home = HOME,
    as_json: AsJson = False,
) -> None:
    """Say which of two installations under one name goes on; the other one is shut out."""
    body = SettleTwins(device=DeviceId(device), installation=BootId(installation))
    common.command(home, body, as_json=as_json)


ProxyHome = Annotated[
    Path,
    typer.Option(
        "--home",
        envvar=proxy_settings.HOME_VARIABLE,
        help="Home folder of the proxy.",
        file_okay=False,
    ),
]
PROXY_HOME = Path(proxy_settings.DEFAULT_HOME)

app = typer.Typer(no_args_is_help=True, help="Lead a fleet: serve, admit devices, open stages.")
app.command("broker-config")(broker_config)
app.command("provision")(provision)
app.command("enrol")(enrol)
app.command("revoke")(revoke)
app.command("settle")(settle)
app.command()(status)


@app.command()
def init(  # noqa: PLR0913, PLR0917 - each is one option of the command line
    fleet: Annotated[str, typer.Option(help="Name of the fleet: a-z, 0-9 and '-'.")],
    broker_host: Annotated[str, typer.Option(help="Host of the MQTT broker.")] = "127.0.0.1",
    broker_port: Annotated[int, typer.Option(help="Port of the MQTT broker.")] = 1883,
    username: Annotated[str, typer.Option(help="User name at the broker.")] = "coordinator",
    password_file: Annotated[
        Path | None, typer.Option(help="File with the broker password, one line.")
    ] = None,
    no_learning: Annotated[
        bool, typer.Option("--no-learning", help="A fleet that runs models and does not learn.")
    ] = False,
    root_key: Annotated[
        list[Path] | None,
        typer.Option(
            help="File for a root key, best on another disk; may be given several times. By "
            "default one in the home's `keys`."
        ),
    ] = None,
    trial: Annotated[
        bool,
        typer.Option(
            "--trial", help="For trying: no root, and devices need no keys. Everything says so."
        ),
    ] = False,
    home: Home = HOME,
    as_json: AsJson = False,
) -> None:
    """Write a commented settings file; make root and release key, and require keys of devices."""
    broker = CoordinatorBrokerSettings(
        host=read_host(broker_host),
        port=broker_port,
        username=DeviceId(username),
        password_file=password_file,
    )
    settings = CoordinatorSettings(
        fleet=FleetId(fleet),
        trial=trial,
        learning=not no_learning,
        broker=broker,
        security=SecuritySettings(require_keys=not trial),
    )
    path = settings_module.write_new(home, settings)
    if trial:
        text = (
            f"wrote {path}, for trying: no keys are asked for; next: "
            "`fleetledger coordinator admit DEVICE`"
        )
        common.done(text, as_json=as_json, wrote=[path])
        return
    keys = root_key or [home / "keys" / "root.pem"]
    root = FirstRoot(keys).made(home)
    text = (
        f"Keep {some(keys)} elsewhere and delete it here: it is needed to change keys alone, and "
        "whoever has it can have devices believe others. Next: `fleetledger coordinator provision "
        "DEVICES.csv --out kits`, or for one device `fleetledger coordinator enrol DEVICE`"
    )
    said, wrote = (f"wrote {path}", *root.said), (str(path), *root.wrote)
    update = {"said": said, "wrote": wrote, "followed": (*root.followed, text)}
    common.show_action(root.model_copy(update=update), as_json=as_json)


@app.command()
def serve(
    home: Home = HOME,
    log_format: FormatOption = LogFormat.TEXT,
    log_level: LevelOption = LogLevel.INFO,
    intake: Annotated[
        int | None,
        typer.Option(
            min=0,
            max=64,
            help="Processes that read and check what devices send; by default `intake_workers` of "
            "the settings.",
        ),
    ] = None,
) -> None:
    """Lead the fleet until stopped."""
    from fleetledger.coordinator.serve import serve as serve_until_stopped  # noqa: PLC0415 - heavy imports

    serve_until_stopped(home, log_format, log_level, intake)


@app.command("proxy-init")
def proxy_init(
    fleet: Annotated[str, typer.Option(help="Name of the fleet: a-z, 0-9 and '-'.")],
    broker_host: Annotated[str, typer.Option(help="Host of the MQTT broker.")] = "127.0.0.1",
    broker_port: Annotated[int, typer.Option(help="Port of the MQTT broker.")] = 1883,
    password_file: Annotated[
        Path | None, typer.Option(help="File with the password of the user `proxy`, one line.")
    ] = None,
    home: ProxyHome = PROXY_HOME,
    as_json: AsJson = False,
) -> None:
    """Write a commented settings file for a proxy."""
    broker = proxy_settings.ProxyBrokerSettings(
        host=read_host(broker_host), port=broker_port, password_file=password_file
    )
    settings = proxy_settings.ProxyHomeSettings(fleet=FleetId(fleet), broker=broker)
    path = proxy_settings.write_new(home, settings)
    said = f"wrote {path}; next: `{PROGRAM} coordinator proxy --home {quote(str(home))}`"
    common.done(said, as_json=as_json, wrote=[path])


@app.command()
def proxy(
    home: ProxyHome = PROXY_HOME,
    log_format: FormatOption = LogFormat.TEXT,
    log_level: LevelOption = LogLevel.INFO,
) -> None:
    """Take gradients from devices and score the fleet's models, until stopped; needs torch."""
    from fleetledger.coordinator.proxy.program import serve as serve_until_stopped  # noqa: PLC0415 - heavy

    serve_until_stopped(home, log_format, log_level)


@app.command()
def admit(
    device: Annotated[str, typer.Argument(help="Id of the device: its MQTT user name.")],
    home: Home = HOME,
    as_json: AsJson = False,
) -> None:
    """Let a device take part."""
    body = AdmitDevice(device=DeviceId(device))
    common.command(home, body, as_json=as_json, then=open_access)


@app.command("correct-clock")
def correct_clock(home: Home = HOME, as_json: AsJson = False) -> None:
    """Let entries have the times of this machine's calendar again, once that is right."""
    common.command(home, CorrectClock(), as_json=as_json)


@app.command("open-stage")
def open_stage(
    classes: Annotated[
        list[str],
        typer.Argument(help="Names of the classes to learn.", autocompletion=completion.classes),
    ],
    yes: Annotated[
        bool,
        typer.Option("--yes", help="Do not ask about strange names, or devices still missing."),
    ] = False,
    home: Home = HOME,
    as_json: AsJson = False,
) -> None:
    """Open a stage: ask the fleet to learn these classes."""
    names = common.class_names(classes)
    try:
        common.command(home, OpenStage(class_names=names, asks=not yes), as_json=as_json)
    except QuestionError as question:
        common.say(str(question), as_json=as_json)
        command_output.confirm("Open the stage?", yes=False, way_out="say --yes if it is meant so")
        common.command(home, OpenStage(class_names=names), as_json=as_json)


@app.command("close-stage")
def close_stage(home: Home = HOME, as_json: AsJson = False) -> None:
    """Close the open stage now; late contributions still count."""
    common.command(home, CloseStage(), as_json=as_json)


@app.command("resume-rounds")
def resume_rounds(home: Home = HOME, as_json: AsJson = False) -> None:
    """Try the rounds of the open stage again, which had stopped."""
    common.command(home, ResumeRounds(), as_json=as_json)


@app.command()
def stages(home: Home = HOME, as_json: AsJson = False) -> None:
    """Show the stages, why each was opened and closed, and what devices have reported since."""
    show(stages_of(home), as_json=as_json)


@app.command()
def rounds(home: Home = HOME, as_json: AsJson = False) -> None:
    """Show the rounds of training: who was asked, what counted, what came of it, who looked."""
    show(rounds_of(home), as_json=as_json)
