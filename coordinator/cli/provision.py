"""`fleetledger coordinator provision`: a kit for every device of a table."""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fleetledger.coordinator.cli.broker_config import LocalPort
from fleetledger.coordinator.cli.common import show_action
from fleetledger.coordinator.core.phrases import some
from fleetledger.coordinator.home_option import HOME, Home
from fleetledger.coordinator.provisioning.broker_access import DEVICES
from fleetledger.coordinator.provisioning.device_table import TableRow, read_table
from fleetledger.runtime.command_output import ActionReport, AsJson
from fleetledger.runtime.count_words import count_of
from fleetledger.transport.brokers.folder import BROKER_LOG, CONFIGURATION, SECRETS, STATE
from fleetledger.transport.mqtt_settings import read_host

if TYPE_CHECKING:  # it makes certificates, for which the rest of the command line need not wait
    from fleetledger.coordinator.provisioning.kits import Provisioned, Provisioning


class LoginBy(str, Enum):
    """How users log in at the broker."""

    CERTIFICATE = "certificate"
    PASSWORD = "password"  # noqa: S105 - a choice of the command line


def provision(  # noqa: PLR0913, PLR0917 - each is one option of the command line
    table: Annotated[
        Path, typer.Argument(help="CSV: a column `name`; others are tags.", dir_okay=False)
    ],
    out: Annotated[Path, typer.Option(help="Folder for kits.", file_okay=False)],
    broker_host: Annotated[
        str | None,
        typer.Option(help="The broker as devices reach it; by default as the coordinator does."),
    ] = None,
    broker_name: Annotated[
        list[str] | None,
        typer.Option(help="A further name or address in its certificate; may be given again."),
    ] = None,
    place: Annotated[
        Path | None,
        typer.Option(help="Where OUT/broker will be on its host; by default where it is."),
    ] = None,
    local_port: LocalPort = None,
    login: Annotated[
        LoginBy, typer.Option(help="What devices show the broker.")
    ] = LoginBy.CERTIFICATE,
    hours: Annotated[
        float, typer.Option(help="How long a kit may be used.", min=0.01, max=8760)
    ] = 720.0,
    home: Home = HOME,
    as_json: AsJson = False,
) -> None:
    """Admit the devices of a table, and make a kit for each that has none; and a broker for all."""
    from fleetledger.coordinator.provisioning.kits import Provisioning  # noqa: PLC0415 - see above
    from fleetledger.coordinator.provisioning.kits import provision as make_kits  # noqa: PLC0415

    rows = read_table(table)
    what = Provisioning(
        home=home,
        out=out,
        host=None if broker_host is None else read_host(broker_host),
        further_names=tuple(broker_name or ()),
        place=place,
        local_port=local_port,
        passwords=login is LoginBy.PASSWORD,
        hours=hours,
    )
    done = make_kits(what, rows)
    report = ActionReport(
        said=tuple(_words(what, done)),
        entries=done.entries,
        wrote=(*(str(out / DEVICES / name) for name in done.made), str(done.broker.folder)),
        refused=tuple(_refusals(table, rows, done)),
    )
    show_action(report, as_json=as_json)


def _words(what: Provisioning, done: Provisioned) -> Iterator[str]:
    there = f"; {len(done.there)} had theirs" if done.there else ""
    yield f"made {count_of(len(done.made), 'kit')} in {what.out / DEVICES}{there}"
    if done.enrolled:
        yield (
            f"no kit for {some(done.enrolled)}: enrolled already, and let in by what was installed "
            "there. For other hardware under the name: `fleetledger coordinator revoke NAME`, then "
            "this again"
        )
    if done.renewed:
        yield (
            f"{some(done.renewed)}: has its key, so the kit has no token; `fleetledger agent "
            "install FOLDER` over its home takes over what logs it in"
        )
    for device in done.retired:
        yield (
            f"no kit for {device}, which is retired: `fleetledger coordinator admit {device}` "
            "brings it back; else take its line out of the table"
        )
    if not done.has_root:
        yield (
            "the fleet has no root, so no kit has one: devices install what the coordinator "
            "desires. `fleetledger trust init` before provisioning makes one"
        )
    if done.coordinator_changed:
        yield f"{what.home} has its certificates now, as [broker.tls]; restart what serves there"
    broker = done.broker
    start = f"mosquitto -c {broker.place / CONFIGURATION}"
    if broker.here:
        yield f"1. Broker: {start}   (its log is {broker.place / STATE / BROKER_LOG})"
    else:
        yield (
            f"1. Broker: copy {broker.folder} without {SECRETS}/ to {broker.place} on its host; "
            f"there: chown -R mosquitto: {broker.place}; {start}"
        )
    if done.reloaded:
        yield f"   {done.reloaded}"
    elif not broker.by_certificate:
        yield "   After new kits copy its password_file again, and send it a SIGHUP"
    yield (
        f"2. Devices: take each its folder of {what.out / DEVICES}; there: "
        "`fleetledger agent install FOLDER`"
    )


def _refusals(table: Path, rows: list[TableRow], done: Provisioned) -> Iterator[str]:
    for row in rows:
        if row.device in done.refused:
            yield f"{table}: line {row.line}: {done.refused[row.device]}"
