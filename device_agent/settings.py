"""Settings of the agent: what `agent.toml` may hold."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field, field_validator, model_validator
from typing_extensions import Self

from fleetledger.schemas.keys import VerifyKey
from fleetledger.schemas.message import Strict
from fleetledger.schemas.rollouts import MAX_IMAGES
from fleetledger.schemas.tags import Tags
from fleetledger.schemas.values import DeviceId, FleetId
from fleetledger.schemas.variants import VariantChoice
from fleetledger.transport.mqtt_settings import BrokerHost
from fleetledger.transport.tls import TlsSettings

Samples = Literal["pictures", "text", "scenes", "none"]
DEFAULT_PROVIDERS = ("TensorrtExecutionProvider", "CUDAExecutionProvider", "CPUExecutionProvider")


class AgentBrokerSettings(Strict):
    """Where the broker is. The user name is the device's name."""

    host: BrokerHost = "127.0.0.1"
    port: int = Field(default=1883, ge=1, le=65535)
    password_file: Path | None = None
    """A file with one line, readable by the agent's user alone."""
    tls: TlsSettings | None = None
    """Left out, the connection is not encrypted."""


class AgentDataSettings(Strict):
    """Where the images are."""

    folder: Path | None = None
    """Holds one folder per class, named after it; of scenes: images, masks and classes.toml. Left
    out where `samples` is "none"."""
    evaluation_folder: Path | None = None
    """The same for images that are never learned from: accuracy is measured on them."""
    samples: Samples = "pictures"
    """What counts as samples: pictures, `.txt` files (docs/text.md), or pictures with a mask that
    gives every pixel a class (docs/segmentation.md); or "none": this device runs models, and has
    nothing to learn from (docs/push-models.md)."""
    scan_seconds: float = Field(default=5.0, ge=0.2, le=3600)
    pause_seconds: float = Field(default=60.0, ge=0, le=1e7)
    """Seconds after a stage's part until images go into another one that they do not fill; twice as
    long after each further part of the stage."""
    longest_pause_seconds: float = Field(default=86400.0, ge=0, le=1e7)
    """What these pauses grow to; 0 gives images at once."""

    @model_validator(mode="after")
    def _has_a_folder(self) -> Self:
        if self.folder is None and self.samples != "none":
            raise ValueError(
                "folder: is missing; name the folder of this device's samples, or say "
                'samples = "none" where it only runs models'
            )
        return self


class ModelSettings(Strict):
    """How models run."""

    providers: tuple[str, ...] = Field(default=DEFAULT_PROVIDERS, min_length=1, max_length=10)
    """ONNX Runtime execution providers, tried in this order."""
    threads: int = Field(default=1, ge=1, le=256)
    """Threads of one ONNX Runtime session; each costs memory."""
    batch: int = Field(default=8, ge=1, le=1024)
    """Images per run; more is faster and takes more memory."""
    unload_seconds: float = Field(default=10.0, ge=0, le=1e9)
    """After so long without work for it a model on the processor leaves memory until there is."""
    deadline_hours: float = Field(default=24.0, gt=0, le=87600)
    """After so long a model that the fleet wants here and that did not come is given up."""
    variant: VariantChoice = "reference"
    """Which variant of the frozen part models run on, where they have it; `auto` takes half
    precision where a GPU's provider is at hand, and 8-bit integers on the processor."""
    domains: tuple[str, ...] = Field(default=(), max_length=20)
    """Operator domains that files may use beside the standard one."""
    trial: bool = True
    """Whether a new model is loaded and tested in a process of its own first."""
    trial_seconds: float = Field(default=300.0, ge=1, le=86_400)
    """Longest trial."""
    build_seconds: float = Field(default=1800.0, ge=1, le=86_400)
    """How much longer it may be where TensorRT builds an engine first, once for a frozen part."""
    trial_memory_mib: int | None = Field(default=None, ge=16, le=1 << 24)
    """Most memory of a model on trial, beyond the libraries; half of the machine's if left out."""
    slowdown: float = Field(default=2.5, ge=1, le=1e6)
    """How many times as long as the former model of its lineage a new one may take for a sample."""
    sample_seconds: float = Field(default=10.0, gt=0, le=86_400)
    """Longest that a new model may take for a sample."""
    compare_images: int = Field(default=1000, ge=0, le=MAX_IMAGES)
    """Most held-out images on which a candidate is compared with another model, and as many more
    without labels."""
    compare_seconds: float = Field(default=300.0, ge=0, le=86_400)
    """After so long of comparing no further image is begun."""
    compare_live: int = Field(default=0, ge=0, le=100_000)
    """Most images that applications showed to `agent serve` and that are kept on this device to
    compare models on; 0 keeps none."""
    compare_live_seconds: float = Field(default=60.0, ge=0, le=86_400)
    """One of them is kept in so many seconds, on average."""
    probation_seconds: float = Field(default=60.0, ge=0, le=86_400)
    """How long the agent must have run after a switch before its starts no longer count; 0 counts
    none."""

    @field_validator("providers")
    @classmethod
    def _end_with_cpu(cls, providers: tuple[str, ...]) -> tuple[str, ...]:
        if providers[-1] != "CPUExecutionProvider":
            raise ValueError("let the list end with 'CPUExecutionProvider', which always works")
        return providers


class AgentDetectionSettings(Strict):
    """When images that the model is unsure about are reported; see docs/detection.md."""

    mode: Literal["sequential", "baseline", "fixed-rise", "off"] = "sequential"
    """`sequential`: evidence is gathered over shots, against this device's quiet ones.
    `baseline`: batches against this device's own history. `fixed-rise`: as in the papers."""
    quiet_images: int = Field(default=1000, ge=20, le=10_000_000)
    """For `sequential`: on average at most one false alarm in so many quiet images; 10000 fits a
    camera of an image a second, with 9 a day."""
    min_images: int = Field(default=50, ge=1, le=10_000)
    """New images of one batch; the default is the least that is sound. For `sequential`: quiet
    images before those of unknown classes are measured."""
    deviations: float = Field(default=2.0, gt=0, le=100)
    """For `baseline`: standard deviations above the history's mean at which a batch is reported."""
    rise_nats: float = Field(default=1.2, gt=0, le=100)
    """For `fixed-rise`: the rise over the batch before."""


class InboxSettings(Strict):
    """Which images that applications show to the model are kept for their owner to name."""

    keep: bool = False
    """Whether any are: images of a camera are written to the disk only where the owner says so."""
    doubt: float | None = Field(default=None, gt=0, le=100)
    """The least doubt of an image, in the unit of `[detection]`; left out, 0.5, or `rise_nats`
    where its mode is `fixed-rise`."""
    images: int = Field(default=200, ge=1, le=10_000)
    megabytes: int = Field(default=64, ge=1, le=1_000_000)
    days: float = Field(default=30.0, gt=0, le=3650)
    """After so long an image that nobody has named goes."""
    interval_seconds: float = Field(default=10.0, ge=0, le=86_400)
    """Between two images that are kept."""


Exemplars = Literal["images", "features"]


class AgentTrainingSettings(Strict):
    """How this device trains, where the fleet's method does."""

    exemplars: Exemplars = "images"
    """What is kept of old classes on a frozen backbone: that an image of the folder is one, or its
    features, which stay on the device when the image is gone."""
    feature_cache_megabytes: int = Field(default=256, ge=1, le=1_000_000)
    """Most that features of a frozen backbone take on the disk; the oldest go first."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """Where networks train; `auto` takes a GPU where torch finds one."""
    bfloat16: bool = False
    """Whether training computes in bfloat16 where torch deems it safe; weights stay float32."""
    inference_batch: int = Field(default=8, ge=1, le=4096)
    """Images at once where training looks through all of them before an epoch."""


class PolicySettings(Strict):
    """What may leave this device, beyond sums, counts and weights."""

    publish_features: bool = False
    """Features of single images, or moments of a class's features."""
    publish_gradients: bool = False
    """Gradients of perturbed images, to the fleet's proxy, which makes images of them."""
    publish_images: bool = False
    """Images themselves, unlabelled, to the coordinator and from there to every device."""


class TrustSettings(Strict):
    """What the owner is told of the fleet's keys."""

    silent_hours: float = Field(default=24.0, ge=2, le=87600)
    """After so long without anything new that the coordinator has signed the owner is told; it says
    something every hour."""


class FilesSettings(Strict):
    """From where models and other large files come."""

    https: bool = True
    """Whether they may be fetched by HTTPS from where the coordinator says, before the broker."""
    hosts: tuple[str, ...] = Field(default=(), max_length=50)
    """From these hosts alone; from any where it is left out."""
    ca_file: Path | None = None
    """Certificates of the CAs that may have signed theirs; left out, the system's."""


class HealthSettings(Strict):
    """What is told of the machine."""

    seconds: float = Field(default=60.0, ge=0, le=86_400)
    """How often the coordinator is told how this machine is; 0 for never."""
    textfile: Path | None = None
    """A file that ends in `.prom`, which node_exporter's textfile collector reads; written as
    often, every minute where the coordinator is told nothing."""


class AgentSettings(Strict):
    """Everything in `agent.toml`."""

    device: DeviceId
    fleet: FleetId
    contribution_form: str | None = Field(default=None, min_length=1, max_length=40)
    """One of the forms that the fleet's method allows; left out, the fleet's own."""
    coordinator_key: VerifyKey | None = None
    """The coordinator's public key; with it, a receipt must prove that the ledger has what this
    device gave."""
    root: Path | None = None
    """The fleet's root document, relative to the agent's folder; with it, only models are installed
    that a release key of the fleet has signed."""
    broker: AgentBrokerSettings = AgentBrokerSettings()
    data: AgentDataSettings
    model: ModelSettings = ModelSettings()
    detection: AgentDetectionSettings = AgentDetectionSettings()
    inbox: InboxSettings = InboxSettings()
    training: AgentTrainingSettings = AgentTrainingSettings()
    policy: PolicySettings = PolicySettings()
    trust: TrustSettings = TrustSettings()
    files: FilesSettings = FilesSettings()
    health: HealthSettings = HealthSettings()
    tags: Tags = Field(default={})
    """What the owner says of the device, for the operator to choose devices by."""
