"""Settings of a coordinator: one TOML file in its home folder."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlsplit

import tomli_w
from pydantic import AfterValidator, Field, model_validator
from typing_extensions import Self

from fleetledger.coordinator.core.rules import (
    AdapterRules,
    BoundRules,
    DailyRules,
    IntakeRules,
    ModelRules,
    ReleaseRules,
    RolloutRules,
    RoundRules,
    Rules,
    SilenceRules,
    StageRules,
)
from fleetledger.coordinator.topics.rollouts.plan import plan_content
from fleetledger.schemas.message import Strict
from fleetledger.schemas.offers import MAX_URL, HttpsUrl
from fleetledger.schemas.private_file import make_home
from fleetledger.schemas.settings_file import SettingsError, find_secret, load_settings
from fleetledger.schemas.toml_text import toml_value
from fleetledger.schemas.values import DeviceId, FleetId
from fleetledger.schemas.whole_file import write_whole
from fleetledger.transport.mqtt_settings import BrokerHost
from fleetledger.transport.tls import TLS_LINES, TlsSettings

FILE_NAME = "coordinator.toml"
HOME_VARIABLE = "FLEETLEDGER_COORDINATOR"
DEFAULT_HOME = "coordinator-home"
FEWEST_SHARD_ENTRIES = 16
_LOOPBACK = {"127.0.0.1", "::1", "localhost"}


class LocalBrokerSettings(Strict):
    """The listener of a broker on this machine that only its programs reach."""

    port: int = Field(ge=1, le=65535)
    password_file: Path = Path("broker.password")
    """It asks for a password, also where devices show certificates."""

    def toml(self) -> str:
        """Return the section as it stands in a settings file."""
        return tomli_w.dumps({"broker": {"local": self.model_dump(mode="json")}}).rstrip("\n")


class CoordinatorBrokerSettings(Strict):
    """Where the MQTT broker is, and who the coordinator is there."""

    host: BrokerHost = "127.0.0.1"
    port: int = Field(default=1883, ge=1, le=65535)
    username: DeviceId = DeviceId("coordinator")
    password_file: Path | None = None
    tls: TlsSettings | None = None
    """Left out, the connection is not encrypted."""
    local: LocalBrokerSettings | None = None
    """Where the coordinator itself connects, if that is not where devices do."""


class MethodSection(Strict):
    """The method that the fleet learns with, and its own settings."""

    name: str = "stsa"
    settings: dict[str, Any] = Field(default_factory=dict)


class FirstStageSection(Strict):
    """How a network is trained in the first stage, before it is frozen for the fleet's method."""

    name: str = "rounds"
    settings: dict[str, Any] = Field(default_factory=dict)


class SecuritySettings(Strict):
    """Whom the coordinator believes."""

    require_keys: bool = False
    """Refuse devices that have no key; by default only those with one must sign."""
    silent_hours: float = Field(default=24.0, gt=0, le=87600)
    """After so long without anything of a device that can be believed the operator is told."""


class ReleaseSection(ReleaseRules):
    """How what goes out is released, in a fleet with a root."""

    key: Path = Path("keys/release.pem")
    """The release key, relative to the home; where there is no such file, what is pushed waits for
    `fleetledger model sign`."""


class FilesSection(Strict):
    """Where large blobs lie by HTTPS, for devices that fetch there; nowhere if left out."""

    url: HttpsUrl | None = None
    """What stands before `<first two digits>/<digest>`: of a web server or CDN before the blobs."""
    store: str | None = Field(default=None, min_length=1, max_length=1024)
    """fsspec URL of such a folder of blobs, whose driver signs URLs that count for a while."""
    seconds: int = Field(default=3600, ge=60, le=604_800)
    """For how long signed URLs count."""

    @model_validator(mode="after")
    def _says_one_place(self) -> Self:
        if self.url is not None and self.store is not None:
            raise ValueError("url, store: both are given; name the one that devices are told")
        return self


def _postable(url: str) -> str:
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError as error:
        raise ValueError(f"cannot be read ({error}); give https://HOST/PATH") from error
    safe = parts.scheme == "https" or (parts.scheme == "http" and host in _LOOPBACK)
    if not safe or not host or parts.username is not None:
        raise ValueError("give https://HOST/PATH without a password, or http:// of this machine")
    return url


class WebhookSection(Strict):
    """Where the coordinator posts what needs a person."""

    url: Annotated[str, Field(max_length=MAX_URL, pattern=r"^[!-~]+$"), AfterValidator(_postable)]
    """https, or http on this machine. Its path may be a secret and is never logged."""
    ca_file: Path | None = None
    """Certificates of the CAs that may have signed the host's; the system's if left out."""
    seconds: float = Field(default=30.0, ge=1, le=86_400)
    """Time between looks."""


class LedgerSection(Strict):
    """How the ledger grows, and what is kept beside it so that a start need not read all of it."""

    snapshot_every: int = Field(default=10_000, ge=0, le=1_000_000_000)
    """Entries after which a coordinator that serves has its state kept anew; 0 for never."""
    shard_entries: int = Field(default=10_000_000, ge=0, le=1_000_000_000)
    """Entries after which the log goes on in a new shard; 0 for never."""

    @model_validator(mode="after")
    def _has_large_shards(self) -> Self:
        if 0 < self.shard_entries < FEWEST_SHARD_ENTRIES:
            raise ValueError(
                f"shard_entries: {self.shard_entries} is too few; give {FEWEST_SHARD_ENTRIES} or "
                "more, or 0 for one shard"
            )
        return self


class ImportsSection(Strict):
    """What a file from elsewhere may take while a process of its own judges it."""

    seconds: int = Field(default=900, ge=1, le=86_400)
    """Of the processor."""
    memory_mib: int | None = Field(default=None, ge=16, le=1 << 24)
    """Beyond the libraries; half of this machine's memory if left out."""


class ProxySection(Strict):
    """A proxy that runs in the coordinator's process."""

    home: Path
    """Its own folder, with its own settings; relative to the coordinator's."""


class CoordinatorSettings(Strict):
    """Everything that the operator may set."""

    fleet: FleetId
    trial: bool = False
    """Whether the fleet is for trying: it needs no keys, and whoever looks at it is told so."""
    learning: bool = True
    """Whether the fleet learns; where it does not, models are imported and pushed, and nothing is
    asked of devices but to run them."""
    broker: CoordinatorBrokerSettings = CoordinatorBrokerSettings()
    method: MethodSection = MethodSection()
    first_stage: FirstStageSection | None = None
    """For a method of statistics whose frozen network the fleet trains itself."""
    stages: StageRules = StageRules()
    rounds: RoundRules = RoundRules()
    models: ModelRules = ModelRules()
    rollouts: RolloutRules = RolloutRules()
    adapter: AdapterRules = AdapterRules()
    release: ReleaseSection = ReleaseSection()
    intake: IntakeRules = IntakeRules()
    intake_workers: int = Field(default=0, ge=0, le=64)
    """Processes that read and check what devices send; with none the coordinator does it itself."""
    bounds: BoundRules = BoundRules()
    daily: DailyRules = DailyRules()
    security: SecuritySettings = SecuritySettings()
    files: FilesSection = FilesSection()
    webhook: WebhookSection | None = None
    """Left out, nothing is posted."""
    ledger: LedgerSection = LedgerSection()
    imports: ImportsSection = ImportsSection()
    proxy: ProxySection | None = None
    """Left out where the proxy is a program of its own, or the method has none."""
    blobs: str | None = None
    """Folder or fsspec URL of the blob store; by default `ledger/blobs` in the home folder."""

    @property
    def rules(self) -> Rules:
        """The part that the core decides by."""
        return Rules(
            learning=self.learning,
            stages=self.stages,
            rounds=self.rounds,
            models=self.models,
            rollouts=self.rollouts,
            adapter=self.adapter,
            release=self.release,
            intake=self.intake,
            bounds=self.bounds,
            daily=self.daily,
            shard_entries=self.ledger.shard_entries,
        )


BEAT_SECONDS = 3600.0
"""How often a coordinator that serves is heard; devices are told of silence after two hours at the
earliest."""


AWAY_SECONDS = 3600.0
"""How long a device is away before stages go on without it, unless the settings say otherwise."""


def rules_of_serving(settings: CoordinatorSettings) -> Rules:
    """Return the rules of a coordinator that serves, whose silence and whose devices' counts."""
    silence = SilenceRules(
        beat_seconds=BEAT_SECONDS, silent_seconds=settings.security.silent_hours * 3600
    )
    stages = settings.stages
    if stages.away_seconds is None:
        stages = stages.model_copy(update={"away_seconds": AWAY_SECONDS})
    return settings.rules.model_copy(update={"silence": silence, "stages": stages})


def load(home: Path) -> CoordinatorSettings:
    """Read the settings of the coordinator that lives in `home`; raise `SettingsError`."""
    return load_settings(home / FILE_NAME, CoordinatorSettings)


def password_file(home: Path, settings: CoordinatorSettings) -> Path | None:
    """Return the file of the broker password, or None where none is set; raise `SettingsError`."""
    return find_secret(home, settings.broker.password_file)


def write_new(home: Path, settings: CoordinatorSettings) -> Path:
    """Write a commented settings file into `home`; raise `SettingsError` if there is one."""
    path = home / FILE_NAME
    if path.exists():
        raise SettingsError(f"{path}: exists already; edit it, or choose another --home")
    make_home(home)
    template = _TEMPLATE if settings.learning else _WITHOUT_LEARNING
    text = template.format(**_template_values(settings)) + tomli_w.dumps(_sections(settings))
    write_whole(path, text)
    return path


def _sections(settings: CoordinatorSettings) -> dict[str, Any]:
    """Return the method, and what is set of intake, bounds, rounds, rollouts and others."""
    chosen: dict[str, Any] = {"method": settings.method} if settings.learning else {}
    chosen |= {"intake": settings.intake} if settings.intake != IntakeRules() else {}
    chosen |= {"bounds": settings.bounds} if settings.bounds != BoundRules() else {}
    chosen |= {"daily": settings.daily} if settings.daily != DailyRules() else {}
    chosen |= {"rounds": settings.rounds} if settings.rounds != RoundRules() else {}
    chosen |= {"rollouts": settings.rollouts} if settings.rollouts != RolloutRules() else {}
    chosen |= {"adapter": settings.adapter} if settings.adapter != AdapterRules() else {}
    chosen |= {"ledger": settings.ledger} if settings.ledger != LedgerSection() else {}
    chosen |= {"first_stage": settings.first_stage} if settings.first_stage else {}
    return {name: _written(part) for name, part in chosen.items()}


def _written(part: Strict) -> dict[str, Any]:
    """Return a part as TOML holds it: gates that are off say so, what else is None is left out."""
    content = part.model_dump(mode="json", exclude_none=True)
    if isinstance(part, RolloutRules | AdapterRules):
        content["plan"] = plan_content(part.plan)
    return content


def _template_values(settings: CoordinatorSettings) -> dict[str, Any]:
    password_file, within = settings.broker.password_file, settings.stages.reports_within_seconds
    return {
        "fleet": toml_value(settings.fleet) + (_TRIAL if settings.trial else ""),
        "host": toml_value(settings.broker.host),
        "port": settings.broker.port,
        "username": toml_value(settings.broker.username),
        "password": (
            f"password_file = {toml_value(os.fspath(password_file))}"
            if password_file
            else '# password_file = "broker.password"   # one line, mode 0600'
        ),
        "tls": TLS_LINES if settings.broker.tls is None else settings.broker.tls.toml(),
        "local": _LOCAL_LINES if settings.broker.local is None else settings.broker.local.toml(),
        "stages": settings.stages,
        "reports_within": (
            "# reports_within_seconds = 3600   # of doubts; left out, as long as each report says"
            if within is None
            else f"reports_within_seconds = {within}"
        ),
        "models": settings.models,
        "require_keys": toml_value(settings.security.require_keys),
        "silent_hours": settings.security.silent_hours,
        "automatic": toml_value(settings.models.automatic),
    }


_TRIAL = "\ntrial = true                     # for trying: devices need no keys"
_LOCAL_LINES = """\
# [broker.local]                   # a broker on this machine: a listener that devices cannot fill
# port = 1884                      # as `coordinator broker-config` says
# password_file = "broker.password\""""
_BROKER = """\
[broker]
host = {host}
port = {port}
username = {username}
{password}

{tls}

{local}

"""
_TRUST = """\
[security]
require_keys = {require_keys}      # refuse devices without a key of their own (docs/trust.md)
silent_hours = {silent_hours}       # tell of a device of which nothing was believed for so long

[release]                        # for a fleet with a root, see docs/trust.md
# key = "keys/release.pem"       # where this file is not, pushes wait for `fleetledger model sign`
# expire_days = 90               # after so many days a release is not installed any more
"""
_WITHOUT_LEARNING = (
    """\
# Settings of a fleetledger coordinator.
fleet = {fleet}
learning = false                 # models are imported and pushed: docs/push-models.md

"""
    + _BROKER
    + _TRUST
)
_TEMPLATE = (
    """\
# Settings of a fleetledger coordinator.
fleet = {fleet}

"""
    + _BROKER
    + """\
[stages]
quorum = {stages.quorum}              # share of admitted devices that must have answered
quiet_seconds = {stages.quiet_seconds}      # then wait this long for more
deadline_seconds = {stages.deadline_seconds}   # close with whatever came
open = "{stages.open}"           # "reports": what devices report as new opens the next stage
reports_quorum = {stages.reports_quorum}      # devices that must have: a number, or a share
{reports_within}
settle_seconds = {stages.settle_seconds}     # open after this long without a further report
gather_seconds = {stages.gather_seconds}     # after a start, wait so long for devices

[models]
automatic = {automatic}        # each solved model goes to all devices
solve_every_seconds = {models.solve_every_seconds}   # at most this often while contributions wait
longest_pause_seconds = {models.longest_pause_seconds}   # these pauses double up to this one

"""
    + _TRUST
    + """
# The method, and its own settings: see docs/methods.
"""
)
