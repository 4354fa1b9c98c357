"""Settings of a coordinator: one TOML file in its home folder."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, model_validator
from typing_extensions import Self

from fleetledger.coordinator.core.rules import (
    AdapterRules,
    BoundRules,
    DailyRules,
    IntakeRules,
    ModelRules,
    PrivacyRules,
    ReleaseRules,
    RolloutRules,
    RoundRules,
    Rules,
    SilenceRules,
    StageRules,
)
from fleetledger.coordinator.paths import FILE_NAME
from fleetledger.coordinator.topics.rollouts.plan import plan_content
from fleetledger.methods.training.robust import refuse_hidden
from fleetledger.runtime.commented_toml import write_new_settings
from fleetledger.runtime.settings_file import load_settings
from fleetledger.runtime.strict import Strict
from fleetledger.schemas.offers import MAX_URL, HttpsUrl
from fleetledger.schemas.values import DeviceId, FleetId
from fleetledger.transport.mqtt_settings import BrokerHost, BrokerSettings

_LOOPBACK = {"127.0.0.1", "::1", "localhost"}


class LocalBrokerSettings(Strict):
    """The listener of a broker on this machine that only its programs reach."""

    port: int = Field(ge=1, le=65535, examples=[1884])
    """Port of the listener."""
    password_file: Path = Field(default=Path("broker.password"), examples=["broker.password"])
    """The listener asks for a password, also where devices show certificates."""


class CoordinatorBrokerSettings(BrokerSettings):
    """Where the MQTT broker is, and who the coordinator is there."""

    username: DeviceId = DeviceId("coordinator")
    """User name of the coordinator at the broker."""
    local: LocalBrokerSettings | None = None
    """A listener on this machine for the coordinator itself, which devices cannot fill:
    `coordinator broker-config` says it. Left out, it connects where devices do."""


class MethodSection(Strict):
    """The method that the fleet learns with: docs/methods/choosing-a-method.md."""

    name: str = "stsa"
    """Name of the method."""
    settings: dict[str, Any] = Field(default_factory=dict)
    """The method's own settings, such as docs/methods/stsa.md."""


class FirstStageSection(Strict):
    """How a network is trained in the first stage, before it is frozen for the fleet's method."""

    name: str = "rounds"
    """Name of the method that trains it."""
    settings: dict[str, Any] = Field(default_factory=dict)
    """That method's own settings."""


class SecuritySettings(Strict):
    """Whom the coordinator believes: docs/trust.md."""

    require_keys: bool = False
    """Whether devices without a key of their own are refused: docs/trust.md#requiring-keys. By
    default only those with one must sign."""
    silent_hours: float = Field(default=24.0, gt=0, le=87600)
    """Hours without anything of a device that can be believed, after which the operator is told:
    docs/trust.md#silence."""


class ReleaseSection(ReleaseRules):
    """How models are released in a fleet with a root: docs/trust.md#root-and-release-keys."""

    key: Path = Path("keys/release.pem")
    """The release key, relative to the home; where there is no such file, what is pushed waits for
    `fleetledger model sign`."""


class FilesSection(Strict):
    """Where devices may fetch large files by HTTP: docs/copies.md#models-by-http."""

    serve: bool = True
    """Whether the coordinator gives them itself, unless `url` or `store` is set. Devices that do
    not reach it have them by the broker."""
    port: int | None = Field(default=None, ge=0, le=65535)
    """Port at which it does; left out, that of the broker and 2, 0 for any that is free."""
    address: str | None = Field(default=None, max_length=253)
    """Own address at which it does, empty for all; left out, all, or this machine's alone where the
    broker is at it and nothing is encrypted."""
    host: BrokerHost | None = None
    """Name or address at which devices reach the coordinator, for kits; left out, the broker's."""
    certificate_file: Path = Path("files.pem")
    """Its certificate, where the broker speaks TLS; `coordinator provision` makes it."""
    key_file: Path = Path("files.key")
    """The key of that certificate."""
    url: HttpsUrl | None = Field(default=None, examples=["https://files.example.org"])
    """What stands before `<first two digits>/<digest>`: of a web server or CDN before the blobs."""
    store: str | None = Field(
        default=None, min_length=1, max_length=1024, examples=["s3://bucket/blobs"]
    )
    """fsspec URL of such a folder of blobs, whose driver signs URLs that count for a while."""
    seconds: int = Field(default=3600, ge=60, le=604_800)
    """Seconds for which signed URLs count, and tokens of the coordinator's own."""

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
    """Where the coordinator posts what needs a person: docs/operating.md#alerts."""

    url: Annotated[str, Field(max_length=MAX_URL, pattern=r"^[!-~]+$"), AfterValidator(_postable)]
    """https, or http on this machine. Its path may be a secret and is never logged."""
    ca_file: Path | None = None
    """Certificates of the CAs that may have signed the host's; the system's if left out."""
    seconds: float = Field(default=30.0, ge=1, le=86_400)
    """Seconds between two looks at what needs a person."""


class LedgerSection(Strict):
    """How the ledger grows: docs/ledger.md#starting-again."""

    snapshot_every: int = Field(default=10_000, ge=0, le=1_000_000_000)
    """Entries after which a coordinator that serves stores its state for quick starts; 0 for
    never."""


class ImportsSection(Strict):
    """What a process may take that judges a file from elsewhere: docs/push-models.md#import."""

    seconds: int = Field(default=900, ge=1, le=86_400)
    """Most seconds of the processor."""
    memory_mib: int | None = Field(default=None, ge=16, le=1 << 24, examples=[2048])
    """Most MiB of memory beyond the libraries; half of this machine's memory if left out."""


class ProxySection(Strict):
    """A proxy in the coordinator's process, which can read its gradients then: docs/proxy.md."""

    home: Path
    """Folder of the proxy, with its own settings; relative to the coordinator's."""


class CoordinatorSettings(Strict):
    """Everything that the operator may set."""

    fleet: FleetId
    """Name of the fleet; part of every topic at the broker."""
    trial: bool = False
    """Whether the fleet is for trying: it needs no keys, and whoever looks at it is told so."""
    learning: bool = True
    """Whether the fleet learns. Where it does not, models are imported and pushed, and nothing is
    asked of devices but to run them: docs/push-models.md."""
    broker: CoordinatorBrokerSettings = CoordinatorBrokerSettings()
    method: MethodSection = MethodSection()
    first_stage: FirstStageSection | None = None
    stages: StageRules = StageRules()
    rounds: RoundRules = RoundRules()
    models: ModelRules = ModelRules()
    rollouts: RolloutRules = RolloutRules()
    adapter: AdapterRules = AdapterRules()
    release: ReleaseSection = ReleaseSection()
    intake: IntakeRules = IntakeRules()
    intake_workers: int = Field(default=0, ge=0, le=64)
    """Processes that read and check what devices send, 0 for the coordinator itself:
    docs/coordinator.md#more-than-one-core."""
    bounds: BoundRules = BoundRules()
    daily: DailyRules = DailyRules()
    privacy: PrivacyRules = PrivacyRules()
    security: SecuritySettings = SecuritySettings()
    files: FilesSection = FilesSection()
    webhook: WebhookSection | None = None
    ledger: LedgerSection = LedgerSection()
    imports: ImportsSection = ImportsSection()
    proxy: ProxySection | None = None
    blobs: str | None = Field(default=None, examples=["ledger/blobs"])
    """Folder or fsspec URL of payloads and models; left out, `ledger/blobs`."""

    @model_validator(mode="after")
    def _rounds_fit_the_method(self) -> Self:
        rounds = self.rounds
        refuse_hidden(rounds.robust, (self.first_stage or self.method).settings)
        if rounds.asynchronous is not None or rounds.robust is not None:
            from fleetledger.methods import registry  # noqa: PLC0415 - imports NumPy

            name = (self.first_stage or self.method).name
            known = registry.descriptor(name) if name in registry.METHODS else None
            if known is not None and known.trains:
                if rounds.asynchronous is not None and not known.asynchronous:
                    raise ValueError(registry.waits_for_all(name))
                if rounds.robust is not None and not known.averages:
                    raise ValueError(registry.takes_no_robust_mean(name))
        return self

    @model_validator(mode="after")
    def _masks_show_one_sum(self) -> Self:
        if self.privacy.masks and self.rounds.asynchronous is not None:
            raise ValueError(
                "privacy.masks: asynchronous rounds wait for nobody, and masks for a cohort; leave "
                "one of them out"
            )
        if self.privacy.masks and self.rounds.robust is not None:
            raise ValueError(
                "privacy.masks: rounds.robust looks at each answer, and masks show sums alone; "
                "leave one of them out"
            )
        return self

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
            privacy=self.privacy,
            fleet=self.fleet,
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


_TITLE = "Settings of a fleetledger coordinator. Relative paths begin at this file's folder."
_BRIEF = (
    *("first_stage", "rounds", "rollouts", "adapter", "intake", "bounds", "daily"),
    *("privacy", "files", "webhook", "ledger", "imports", "proxy"),
)
"""Sections that a new file only names, unless something is set in them."""
_OF_LEARNING = (
    *("method", "first_stage", "stages", "rounds", "models", "rollouts", "adapter"),
    *("bounds", "daily", "privacy"),
)
"""Sections that a fleet without learning does not have."""


def write_new(home: Path, settings: CoordinatorSettings) -> Path:
    """Write a commented settings file into `home`; raise `SettingsError` if there is one."""
    usual = CoordinatorSettings(fleet=settings.fleet)
    brief: dict[str, dict[str, Any] | None] = {}
    for name in _BRIEF:
        part = getattr(settings, name)
        brief[name] = _written(part) if part != getattr(usual, name) else {}
    if not settings.learning:
        brief |= dict.fromkeys(_OF_LEARNING)
    return write_new_settings(home / FILE_NAME, settings, _TITLE, brief)


def _written(part: Strict) -> dict[str, Any]:
    """Return a part as TOML holds it: gates that are off say so, what else is None is left out."""
    content = part.model_dump(mode="json", exclude_none=True)
    if isinstance(part, RolloutRules | AdapterRules):
        content["plan"] = plan_content(part.plan)
    return content
