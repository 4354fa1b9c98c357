"""Settings of the agent: what `agent.toml` may hold."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field, field_validator, model_validator
from typing_extensions import Self

from fleetledger.device_agent.kinds import KINDS, Exemplars, SampleKind, Samples
from fleetledger.runtime.strict import Strict
from fleetledger.schemas.arrays import Shape
from fleetledger.schemas.cohorts import LEAST_MEMBERS, MOST_MEMBERS
from fleetledger.schemas.keys import VerifyKey
from fleetledger.schemas.rollouts import MAX_IMAGES
from fleetledger.schemas.tags import Tags
from fleetledger.schemas.values import DeviceId, FleetId
from fleetledger.schemas.variants import VariantChoice
from fleetledger.transport.mqtt_settings import BrokerHost, BrokerSettings

DEFAULT_PROVIDERS = ("TensorrtExecutionProvider", "CUDAExecutionProvider", "CPUExecutionProvider")


class AgentBrokerSettings(BrokerSettings):
    """Where the broker is. The user name is the device's name."""


class AgentDataSettings(Strict):
    """What the device learns from: docs/agent.md#the-data-folder."""

    folder: Path | None = Field(default=None, examples=["data"])
    """Folder with one folder per class, named after it, with that class's images, such as
    cat/1.jpg. Scenes have images/NAME.jpg, masks/NAME.png and a classes.toml that names the masks'
    values. Left out where `samples` is "none"."""
    evaluation_folder: Path | None = Field(default=None, examples=["evaluation"])
    """The same for images that are never learned from: the model's accuracy is measured on them."""
    samples: Samples = "pictures"
    """What counts as samples: "pictures", "text" for .txt files (docs/text.md#on-a-device),
    "array" for .npy, .npz and Parquet (docs/arrays.md#on-a-device), or
    "scenes" for pictures with a mask that gives every pixel a class
    (docs/segmentation.md#scenes-on-a-device). "none" is a device that runs models and has nothing
    to learn from (docs/push-models.md#the-devices)."""
    shape: Shape | None = Field(default=None, examples=[[6, 128]])
    """Shape of one sample where `samples` is "array": a file with an axis before it holds so many
    samples. Left out, each file is one sample, and each row of Parquet."""
    scan_seconds: float = Field(default=5.0, ge=0.2, le=3600)
    """Seconds between scans of the folders. A folder that takes long to scan is left alone for 20
    times as long, at most 300 s."""
    pause_seconds: float = Field(default=60.0, ge=0, le=1e7)
    """Seconds after a stage's part until images go into another one that they do not fill; twice as
    long after each further part of the stage."""
    longest_pause_seconds: float = Field(default=86400.0, ge=0, le=1e7)
    """What these pauses grow to; 0 gives images at once."""

    @model_validator(mode="after")
    def _has_a_folder(self) -> Self:
        if self.folder is None and self.kind.suffixes:
            raise ValueError(
                "folder: is missing; name the folder of this device's samples, or say "
                'samples = "none" where it only runs models'
            )
        if self.shape is not None and not self.kind.many:
            raise ValueError(
                f"shape: {list(self.shape)} with samples = {self.samples!r}; leave it out, or say "
                'samples = "array"'
            )
        return self

    @property
    def kind(self) -> SampleKind:
        """What lies in the folders."""
        return KINDS[self.samples]


class ModelSettings(Strict):
    """How models run, and what a new model must pass: docs/agent.md#models."""

    providers: tuple[str, ...] = Field(default=DEFAULT_PROVIDERS, min_length=1, max_length=10)
    """ONNX Runtime's execution providers for the frozen part, tried in this order. One that fails
    when it is first run is left for the next; heads run on the processor."""
    threads: int = Field(default=1, ge=1, le=256)
    """Threads of one model; each costs memory."""
    batch: int = Field(default=8, ge=1, le=1024)
    """Images per run; more is faster and takes more memory."""
    unload_seconds: float = Field(default=10.0, ge=0, le=1e9)
    """Seconds without work after which a model on the processor leaves memory until there is some:
    docs/agent.md#memory."""
    deadline_hours: float = Field(default=24.0, gt=0, le=87600)
    """Hours after which a new model that did not come is given up, and the fleet is told."""
    variant: VariantChoice = "reference"
    """What the frozen part of a model runs in, where the model has it: "reference" is float32,
    "fp16" half precision, "int8" 8-bit integers; "auto" takes fp16 with a GPU and int8 without.
    Contributions are computed by the reference: docs/models.md#variants-in-fewer-bits."""
    domains: tuple[str, ...] = Field(default=(), max_length=20)
    """Operator domains that files may use beside the standard one."""
    trial: bool = True
    """Whether a new model is loaded and tested in a process of its own first:
    docs/agent.md#what-a-device-checks-before-it-runs-a-model."""
    trial_seconds: float = Field(default=300.0, ge=1, le=86_400)
    """Most seconds of a trial, by the clock and by the processor's."""
    build_seconds: float = Field(default=1800.0, ge=1, le=86_400)
    """Seconds that a trial may take besides where TensorRT builds an engine first, once for a
    frozen part: docs/agent.md#engines-of-tensorrt."""
    trial_memory_mib: int | None = Field(default=None, ge=16, le=1 << 24, examples=[2048])
    """Most memory of a model on trial in MiB, beyond the libraries; half of the machine's if left
    out."""
    slowdown: float = Field(default=2.5, ge=1, le=1e6)
    """Most times as long for a sample as the former model with the same frozen part; a slower new
    model is refused."""
    sample_seconds: float = Field(default=10.0, gt=0, le=86_400)
    """Most seconds of a new model for a sample."""
    compare_images: int = Field(default=1000, ge=0, le=MAX_IMAGES)
    """Most held-out images on which a rollout compares two models, and as many more without labels:
    docs/agent.md#a-candidate-beside-the-model-that-runs."""
    compare_seconds: float = Field(default=300.0, ge=0, le=86_400)
    """Seconds of comparing after which no further image is begun."""
    compare_live: int = Field(default=0, ge=0, le=100_000)
    """Most images that applications showed to `agent serve` and that are kept on this device to
    compare models on; 0 keeps none."""
    compare_live_seconds: float = Field(default=60.0, ge=0, le=86_400)
    """Mean seconds between two images that are kept for that."""
    probation_seconds: float = Field(default=60.0, ge=0, le=86_400)
    """Seconds that the agent must run after a switch. Started three times before that, it goes back
    to the former model; 0 counts no starts."""

    @field_validator("providers")
    @classmethod
    def _end_with_cpu(cls, providers: tuple[str, ...]) -> tuple[str, ...]:
        if providers[-1] != "CPUExecutionProvider":
            raise ValueError("let the list end with 'CPUExecutionProvider', which always works")
        return providers


class AgentDetectionSettings(Strict):
    """When images that the model is unsure about are reported: docs/detection.md."""

    mode: Literal["sequential", "baseline", "fixed-rise", "off"] = "sequential"
    """How the device notices: "sequential" gathers evidence image by image against its quiet ones,
    "baseline" compares batches with its own history, "fixed-rise" is that of the papers, "off"
    does not look."""
    quiet_images: int = Field(default=1000, ge=20, le=10_000_000)
    """For `sequential`: quiet images with at most one false alarm, on average. 10000 fits a camera
    of an image a second, with 9 alarms a day: docs/detection.md#the-sequential-rule."""
    min_images: int = Field(default=50, ge=1, le=10_000)
    """New images of one batch; the default is the least that is sound. For `sequential`: quiet
    images before those of unknown classes are measured."""
    deviations: float = Field(default=2.0, gt=0, le=100)
    """For `baseline`: standard deviations above the history's mean at which a batch is reported."""
    rise_nats: float = Field(default=1.2, gt=0, le=100)
    """For `fixed-rise`: the rise over the batch before, in nats."""


class InboxSettings(Strict):
    """Images that the model doubts, for their owner: docs/label-what-the-model-doubts.md."""

    keep: bool = False
    """Whether any are: images of a camera are written to the disk only where the owner says so."""
    doubt: float | None = Field(default=None, gt=0, le=100, examples=[0.5])
    """Least doubt of an image that is kept, in the unit of `[detection]`; left out, 0.5, or
    `rise_nats` where its mode is `fixed-rise`."""
    images: int = Field(default=200, ge=1, le=10_000)
    """Most images that wait for a name."""
    megabytes: int = Field(default=64, ge=1, le=1_000_000)
    """Most megabytes that they take on the disk."""
    days: float = Field(default=30.0, gt=0, le=3650)
    """Days after which an image that nobody has named goes."""
    interval_seconds: float = Field(default=10.0, ge=0, le=86_400)
    """Seconds between two images that are kept; of a scene that stands still one is."""


class AgentTrainingSettings(Strict):
    """How this device trains, where the fleet's method does: docs/rounds.md."""

    exemplars: Exemplars = "images"
    """What a method keeps of old classes on a frozen backbone: "images" remembers which images of
    the folder they are, "features" keeps their features, which stay when an image is deleted."""
    feature_cache_megabytes: int = Field(default=256, ge=1, le=1_000_000)
    """Most megabytes that features of a frozen backbone take on the disk; the oldest go first."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """Where networks train; "auto" takes a GPU where torch finds one."""
    bfloat16: bool = False
    """Whether training computes in bfloat16 where torch deems it safe; weights stay float32."""
    inference_batch: int = Field(default=8, ge=1, le=4096)
    """Images at once where training looks through all of them before an epoch."""


class PolicySettings(Strict):
    """What may leave this device, beyond sums, counts and weights."""

    publish_features: bool = False
    """Whether features of single images, or moments of a class's features, may leave this device.
    A fleet whose method needs them is told that this device gives none."""
    publish_gradients: bool = False
    """Whether gradients of perturbed images may, to the fleet's proxy, which makes images of them:
    docs/proxy.md. Without them the device trains and answers all the same."""
    publish_images: bool = False
    """Whether images themselves may, unlabelled, to the coordinator and from there to every device.
    A device that shares none trains and answers all the same."""


class AgentPrivacySettings(Strict):
    """What hides this device's numbers from the coordinator: docs/privacy.md."""

    masks: Literal["as-asked", "required"] = "as-asked"
    """Whether numbers are summed behind masks: "as-asked" as the coordinator says, "required" gives
    nothing of this device's samples in any other way."""
    least_cohort: int = Field(default=LEAST_MEMBERS, ge=LEAST_MEMBERS, le=MOST_MEMBERS)
    """Fewest devices with which this one is summed; to a smaller cohort it gives nothing."""
    max_epsilon: float | None = Field(default=None, gt=0, le=1000, examples=[8.0])
    """Most epsilon that this device's contributions may spend, by the fleet's differential privacy:
    docs/noise.md. With it, a fleet that adds no noise gets nothing from this device."""
    max_delta: float = Field(default=1e-5, gt=0, lt=1)
    """Largest delta of that epsilon."""


class TrustSettings(Strict):
    """What the owner is told of the fleet's keys: docs/trust.md."""

    silent_hours: float = Field(default=24.0, ge=2, le=87600)
    """Hours without anything new that the coordinator signed, after which the owner is told; with
    its key it says something every hour."""


class FilesSettings(Strict):
    """From where models and other large files come: docs/copies.md#models-by-http."""

    https: bool = True
    """Whether they may be fetched from the coordinator, or by HTTPS from where it says, before the
    broker. They are checked all the same."""
    coordinator: BrokerHost | None = None
    """Name or address of the coordinator, where it is not that of the broker."""
    hosts: tuple[str, ...] = Field(default=(), max_length=50)
    """Further hosts that they may come from; any with a public address where there is none."""
    ca_file: Path | None = Field(default=None, examples=["files-ca.pem"])
    """Certificates of the CAs that may have signed theirs; left out, the system's."""


class HealthSettings(Strict):
    """What is told of the machine: docs/agent.md#health."""

    seconds: float = Field(default=60.0, ge=0, le=86_400)
    """Seconds between two reports to the coordinator of temperatures, throttling, free disk, memory
    and how long the model takes; 0 for never."""
    textfile: Path | None = Field(
        default=None, examples=["/var/lib/node_exporter/fleetledger.prom"]
    )
    """A file that ends in `.prom`, which node_exporter's textfile collector reads; written as
    often, every minute where the coordinator is told nothing."""


class AgentSettings(Strict):
    """Everything in `agent.toml`."""

    device: DeviceId
    """Name of this device: 1 to 64 of A-Z, a-z, 0-9, '_' and '-'. Also its user name at the
    broker."""
    fleet: FleetId
    """Name of the fleet, as the operator gave it: 1 to 63 of a-z, 0-9 and '-'."""
    contribution_form: str | None = Field(
        default=None, min_length=1, max_length=40, examples=["estimated"]
    )
    """What this device sends, of the forms that the fleet's method allows. "estimated" is the
    smallest for few images per class, and tells the least of single images: docs/methods/stsa.md.
    Left out, the operator decides."""
    coordinator_key: VerifyKey | None = Field(default=None, examples=["FLEET/coordinator+HASH+KEY"])
    """The coordinator's public key (keys/coordinator.pub in its home). With it, a receipt must
    prove that the ledger has what this device gave, and that the ledger only grew since:
    docs/ledger.md#what-a-device-checks. `agent enrol` sets it."""
    root: Path | None = Field(default=None, examples=["root.json"])
    """The fleet's root document (trust/root-1.json in the coordinator's home). With it, only models
    are installed that a release key of the fleet has signed:
    docs/trust.md#root-and-release-keys."""
    broker: AgentBrokerSettings = AgentBrokerSettings()
    data: AgentDataSettings
    model: ModelSettings = ModelSettings()
    detection: AgentDetectionSettings = AgentDetectionSettings()
    inbox: InboxSettings = InboxSettings()
    training: AgentTrainingSettings = AgentTrainingSettings()
    policy: PolicySettings = PolicySettings()
    privacy: AgentPrivacySettings = AgentPrivacySettings()
    trust: TrustSettings = TrustSettings()
    files: FilesSettings = FilesSettings()
    health: HealthSettings = HealthSettings()
    tags: Tags = Field(default={}, examples=[{"site": "orchard-1"}])
    """What this device is told apart by: at most 32 names of a-z, 0-9, "_", "." and "-", with
    values of letters, digits and "_.:/+-". The operator can choose devices by them
    (docs/coordinator.md#tags), and can put others over them."""
