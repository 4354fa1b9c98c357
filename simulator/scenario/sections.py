"""The sections of a scenario's TOML file, a class for each; `docs/scenarios.md` shows them.

What a section means is carried out elsewhere: data
sets in `simulator.datasets`, classes, stages and devices in `simulator.plan`, the rest in
`simulator.engines`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator
from typing_extensions import Self

from fleetledger.coordinator.core.rules import AsynchronousRules
from fleetledger.device_agent.settings import PolicySettings
from fleetledger.methods.training.exchange import Exemplars
from fleetledger.methods.training.robust import Robust, refuse_running
from fleetledger.runtime.count_words import count_of
from fleetledger.runtime.strict import NameIn, Strict
from fleetledger.schemas.values import ClassName, DeviceId
from fleetledger.simulator.datasets.loading import Share
from fleetledger.simulator.plan import orders, partitions, plan_table


class BaseSession(Strict):
    """`[method.base]`: how the first stage is trained, for a method with `base = "central"`.

    All its images are pooled, and the fleet begins with what comes of it. The default is DCID's
    protocol for CIFAR-100.
    """

    epochs: int = Field(default=160, ge=1, le=10_000)
    """Passes over the images."""
    batch: int = Field(default=128, ge=2, le=65_536)
    """Images of a step."""
    rate: float = Field(default=0.1, gt=0)
    """Learning rate of the first epochs."""
    milestones: tuple[int, ...] = (80, 120)
    """Epochs after which the rate is lowered."""
    milestone_factor: float = Field(default=0.1, gt=0, le=1)
    """What the rate is multiplied with at each milestone."""
    momentum: float = Field(default=0.9, ge=0, lt=1)
    """Of stochastic gradient descent."""
    weight_decay: float = Field(default=5e-4, ge=0)
    """Likewise."""
    pad: int = Field(default=0, ge=0, le=64)
    """Black pixels around a picture, of which a window of its size is cut by chance."""
    flip: bool = False
    """Whether half of the pictures are mirrored by chance."""


def _is_empty(value: object) -> bool:
    return not value


ONLY_WITHOUT_LISTS = ("order", "classes", "count", "first", "setting")
"""Fields of `[stages]` that say what `lists` says too."""
_SAID_BY_SETTING = ("count", "first")


class StageSettings(Strict):
    """`[stages]`: in which order classes come, and how many with each stage."""

    plan: Annotated[str, NameIn(plan_table.PLANS)] = "classes"
    """`classes`: every class with one stage. `blurry`: a share of its samples with another.
    `repetition`: classes come back with other samples. `domains`: every stage brings all classes in
    another domain. `own-orders`: every device has its own order of classes. `rows`: as `file` says
    ([plans](#plans-as-data))."""
    options: dict[str, Any] = Field(default_factory=dict, exclude_if=_is_empty)
    """The plan's own options."""
    file: str | None = None
    """Rows of the plan `rows`: a file of `.csv`, `.jsonl`, `.npz` or `.parquet` (with pyarrow)."""
    order: Annotated[str, NameIn(orders.ORDERS)] = "seeded"
    """`seeded`: shuffled by the run's seed. `as-is`: as the data set numbers them. `icarl`: the
    order of the iCaRL program for CIFAR-100. `random-2`, `random-3`: shuffled, the same always."""
    classes: int | None = Field(default=None, ge=1)
    """Use only the first so many classes of the order; left out, all."""
    count: int = Field(default=5, ge=1, le=1000)
    """T, the number of stages."""
    first: int | None = Field(default=None, ge=1)
    """Classes of the first stage, where it is larger than the others."""
    setting: str | None = Field(default=None, pattern=r"^[1-9][0-9]*-[1-9][0-9]*$")
    """Classes of the first stage and of each later one as papers on segmentation name them, like
    `15-1`; instead of `count` and `first`, and beside `classes`."""
    lists: tuple[tuple[ClassName, ...], ...] = ()
    """The classes of every stage by name; instead of `order`, `classes`, `count`, `first` and
    `setting`."""
    scenes: Literal["overlapped", "disjoint"] = "overlapped"
    """Of pictures with masks, those of a stage: all with any of its classes, in whose masks classes
    of later stages are background; or only those of them that show no class of a later stage."""
    opened_by: Literal["schedule", "reports"] = "schedule"
    """`schedule`: the operator opens each stage when its data have come. `reports`: the operator
    opens the first, and what devices report as new opens the others."""

    @property
    def by_reports(self) -> bool:
        """Return whether what devices report opens stages."""
        return self.opened_by == "reports"

    @property
    def total(self) -> int:
        """T, however the stages are told."""
        if self.lists:
            return len(self.lists)
        if self.setting is None or self.classes is None:
            return self.count
        first, step = map(int, self.setting.split("-"))
        return 1 + (self.classes - first) // step

    @property
    def larger_first(self) -> int | None:
        """Classes of the first stage where it need not be as large as the others."""
        if self.setting is None:
            return self.first
        return int(self.setting.split("-")[0]) if self.total > 1 else None

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if self.lists:
            _check_lists(self)
            return self
        if self.setting is not None:
            _check_setting(self, self.setting)
            return self
        if self.first is not None and self.count == 1:
            raise ValueError(f"first: {self.first} beside one stage; leave it out, or set classes")
        if self.classes is None:
            return self
        if self.count > self.classes:
            raise ValueError(
                f"count: {self.count} stages cannot share "
                f"{count_of(self.classes, 'class', 'classes')}; give at most {self.classes}, or "
                "more classes"
            )
        if self.first is not None and self.first > self.classes - self.count + 1:
            raise ValueError(
                f"first: {self.first} of {count_of(self.classes, 'class', 'classes')} leaves too "
                f"few for {count_of(self.count - 1, 'more stage')}; give at most "
                f"{self.classes - self.count + 1}"
            )
        return self


class GroupSettings(Strict):
    """`[devices.groups]`: old, new and newly joined devices, drawn anew for every stage."""

    rule: Literal["none", "redrawn"] = "none"
    """`none`: every device gets data of every stage. `redrawn`: from the second stage on a share of
    the present devices gets data of the new classes, the others keep what they have."""
    new_share: float = Field(default=0.9, ge=0, le=1)
    """Share of the devices already present that gets the new classes (Z_n or S_c)."""
    joining: int = Field(default=0, ge=0)
    """Devices that join with every stage after the first; they get new classes (Z_a or S_n)."""
    newcomers: Literal["included", "excluded"] = "included"
    """Whether devices that come after the first stage take part. `excluded`: they have their data
    and are offline for ever, as LGA's program draws its cohorts from the devices of the start."""


class Absence(Strict):
    """`[[devices.absences]]`: a device that is not there in some stages."""

    device: int = Field(ge=1)
    """Number of the device, from 1."""
    joins: int = Field(default=1, ge=1)
    """First stage in which it is there."""
    leaves: int | None = Field(default=None, ge=2)
    """First stage in which it is not there any more; left out, it stays."""

    def present(self, stage: int) -> bool:
        """Whether the device is there in stage number `stage`."""
        return self.joins <= stage and (self.leaves is None or stage < self.leaves)

    @model_validator(mode="after")
    def _comes_before_it_goes(self) -> Self:
        if self.leaves is not None and self.leaves <= self.joins:
            raise ValueError(
                f"leaves: {self.leaves} is not after its joining in stage {self.joins}; "
                f"give at least {self.joins + 1}"
            )
        return self


class PoisonSettings(Strict):
    """`[devices.poisoned]`: devices that answer rounds with something else than they learned.

    A device trains as the others do; its answer has moved `factor` times as far.
    """

    share: Share
    """Share of the devices, spread evenly over their numbers: 0.2 is every fifth."""
    factor: float = Field(default=-1.0, ge=-1e6, le=1e6)
    """What their moves are multiplied with: -1 turns them round, 10 blows them up, -10 both."""

    def poisons(self, device: DeviceId) -> bool:
        """Return whether a device, whose name ends with its number, is one of them."""
        number, share = int(device.rpartition("-")[2]), Fraction(str(self.share))
        return int(number * share) > int((number - 1) * share)


class DeviceSettings(Strict):
    """`[devices]`: how many, what they hold, when they are there."""

    count: int = Field(default=5, ge=1, le=100_000)
    """K, the devices of the first stage; under `owner` at most so many."""
    partition: partitions.PartitionSettings = partitions.PartitionSettings()
    """How a stage's training images are dealt."""
    groups: GroupSettings = GroupSettings()
    """Who gets new classes."""
    absences: tuple[Absence, ...] = ()
    """Who joins later or leaves."""
    hue: float = Field(default=0.0, ge=0, le=0.5)
    """The most by which a device's camera turns the hue of all its pictures, as a share of the
    colour circle; each device's is drawn once. Not under `class-share`, where devices hold the same
    pictures."""
    dropout: float = Field(default=0.0, ge=0, lt=1)
    """Probability that a device is offline for a whole stage; its data wait for its return."""
    stragglers: float = Field(default=0.0, ge=0, le=1)
    """Probability that a device answers late in a stage."""
    straggler_seconds: float = Field(default=600.0, gt=0)
    """Mean delay of a late answer, in seconds of the fleet's clock; delays are exponential."""
    slowest: float = Field(default=1.0, ge=1, le=1000)
    """How many times `engine.training_seconds` the slowest device trains in a round. Each device's
    speed is drawn once, log-uniform between that and the usual one."""
    test: Literal["common", "own"] = "common"
    """`own`: every device is also asked about a test part of its own, drawn as its training data
    are: of each class and domain, the share that it has of the training samples."""
    policy: PolicySettings = PolicySettings()
    """What the devices' owners allow to leave them."""
    poisoned: PoisonSettings | None = None
    exemplars: Exemplars = "images"
    """What devices keep of old classes where a network is trained on features: `images`, that the
    image of a file is one; `features`, the features themselves (`training.exemplars` of an
    agent)."""

    @model_validator(mode="after")
    def _groups_fit(self) -> Self:
        groups = self.groups
        if self.hue and self.partition.rule == "class-share":
            raise ValueError(
                f"hue: {self.hue} with the rule 'class-share', by which devices hold the same "
                "pictures; take another rule, or leave it out"
            )
        if groups.joining and groups.rule == "none":
            raise ValueError(
                f"groups.joining: {groups.joining} with rule 'none'; set groups.rule to 'redrawn', "
                "or let single devices join later with absences"
            )
        twice = [n for n, times in Counter(a.device for a in self.absences).items() if times > 1]
        if twice:
            raise ValueError(f"absences: device {twice[0]} stands twice; give each at most one")
        return self


class RoundSettings(Strict):
    """`[rounds]`: for methods that learn in rounds; statistics need one pass over the data."""

    per_stage: int = Field(default=1, ge=1)
    """R, rounds of every stage."""
    per_first_stage: int | None = Field(default=None, ge=1)
    """Rounds of the first stage, where it has more or fewer."""
    participation: Share = 1.0
    """Share of the present devices that is asked in a round, of a method of statistics in a
    stage; who is not asked gives its sums when it is asked later."""
    cohort: int | None = Field(default=None, ge=1)
    """So many devices are asked in a round, instead of a share of them."""
    quorum: Share = 0.5
    """Share of the asked that must have answered, or a round comes to nothing."""
    deadline_seconds: float = Field(default=600.0, gt=0)
    """Seconds of the fleet's clock after which a round closes with what has come."""
    pause_seconds: float = Field(default=30.0, ge=0)
    """Seconds of the fleet's clock between a round that came to nothing and the next; twice as long
    after each further one in a row."""
    void_rounds: int = Field(default=5, ge=1)
    """Rounds in a row that come to nothing by what devices say or give, after which the run ends
    with an error that names it."""
    asynchronous: AsynchronousRules | None = None
    """`[rounds.asynchronous]`: rounds that wait for nobody, as [a fleet has
    them](rounds.md#asynchronous-rounds); the asked of a round are then those that train at the same
    time."""
    robust: Robust | None = None
    """`[rounds.robust]`: a bound of each answer, a trimmed mean or a median, as [a fleet has
    them](rounds.md#answers-that-may-be-anybodys)."""

    @model_validator(mode="after")
    def _all_answers_are_there(self) -> Self:
        refuse_running(self.robust, self.asynchronous is not None)
        return self


class FirstStageSettings(Strict):
    """`[method.first_stage]`: the first stage trains the network that the others see through.

    The fleet trains it in rounds, then it is frozen and exported, and `[method]` goes on with it.
    """

    name: str = "rounds"
    """A method that trains."""
    settings: dict[str, Any] = Field(default_factory=dict)
    """Its own settings."""
    rounds: int = Field(default=10, ge=1)
    """Rounds of the first stage."""


class MethodSettings(Strict):
    """`[method]`: what the fleet learns with."""

    name: str = "stsa"
    """One of the methods in docs/README.md; or `joint`, which is no method of a fleet: all images
    so far in one place, the bound that the others are measured by."""
    settings: dict[str, Any] = Field(default_factory=dict)
    """The method's own settings, checked by the method. Of a network, `seed` is that of the run
    where it is left out."""
    on_features: bool | None = None
    """Of a method that trains: whether its network is trained on the features of `[backbone]`
    instead of pictures; left out, as the method itself is made for."""
    first_stage: FirstStageSettings | None = None
    """For a method of statistics whose frozen network the fleet trains itself."""
    public_images: str | None = None
    """Public images that all devices get, where a method distils on such: an `.npz` file with an
    array `images`, as for `fleetledger model import-network --public-images`."""
    trunk: str | None = None
    """First weights of the part of a segmenting network below its head, such as a classifier's that
    was trained on ImageNet: a file, as for `fleetledger model import-network --trunk`."""
    first_weights: str | None = None
    """Of a segmenting network all first weights, with rows of the first stage's classes: a file, as
    for `fleetledger model import-network --first-weights`. With `base = "central"` in the settings
    they are the first stage's model, which then has no rounds."""
    base: BaseSession = BaseSession()
    """For a method that begins with a first stage that was trained in one place."""


_OF_KINDS: tuple[tuple[tuple[str, ...], str, tuple[str, ...]], ...] = (
    (("ray",), "it is of a cluster", ("address", "worker_cpus", "worker_gpus")),
    (("mqtt",), "it is for programs", ("broker", "keys")),
    (
        ("inprocess", "ray"),
        "agents that train by themselves do without",
        ("channels_last", "tf32", "steps"),
    ),
)
"""Kinds of engines, why no others take some fields of `[engine]`, and these fields."""
_SHARED_GPU = 0.5
"""Of a GPU: two that ask for no more can be given the same one."""


class EngineSettings(Strict):
    """`[engine]`: on what the fleet runs. None of it changes what is learned."""

    kind: Literal["inprocess", "mqtt", "ray"] = "inprocess"
    """`inprocess`: the coordinator and [light agents](simulator.md#light-agents) in this process,
    on a virtual clock. `mqtt`: a real broker and a process for each agent. `ray`: as `inprocess`,
    with training in workers on a [cluster of Ray](simulator.md#on-a-cluster)."""
    broker: Literal["auto", "mosquitto", "amqtt"] = "auto"
    """What `mqtt` starts; `auto` takes Mosquitto where it is installed, else amqtt."""
    keys: bool = False
    """Whether under `mqtt` every device enrols a key of its own, and the coordinator takes in
    nothing without."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """Where networks run, and where `inprocess` [computes and solves
    statistics](simulator.md#statistics-on-a-gpu); `auto` takes a GPU where there is one."""
    latency_ms: float = Field(default=20.0, ge=0)
    """Mean time of a message on the virtual network."""
    training: Literal["loop", "stack", "auto"] | None = None
    """How `inprocess` trains the devices of a round: `loop`, one after the other; `stack`, as many
    in one call as memory holds, for small networks; `auto`, whichever is faster here for each kind
    of work, so that last bits may differ from machine to machine. Left out: `auto` on a GPU; on
    the processor `loop`, and [stacks of 16](simulator.md#one-after-another-or-in-stacks) for a
    small network of your own."""
    stack_mib: int | None = Field(default=None, ge=1)
    """Memory that devices in one stack may take; left out, half of what the GPU has free, or an
    eighth of the memory that is available to the processor."""
    bfloat16: bool = False
    """Whether training computes in bfloat16 where torch deems it safe."""
    channels_last: bool = False
    """Whether convolutions are trained on pictures with the channels of a pixel side by side, as a
    GPU prefers it in bfloat16; for `loop`."""
    tf32: bool | None = None
    """Whether a GPU multiplies float32 by TF32, numbers of 10 bits, in matrices and convolutions
    while it trains; left out, as torch has it: in convolutions alone."""
    steps: Literal["eager", "compiled", "captured"] = "eager"
    """How a step of training is carried out. `eager`: call by call. `compiled`: as one graph by
    `torch.compile`, which needs g++ on the CPU and minutes for a large network. `captured`: as a
    CUDA graph that is captured once and replayed for all devices, in a `loop`. Where it cannot be
    so, a warning says why, and steps are `eager`."""
    training_seconds: float = Field(default=10.0, gt=0)
    """Seconds of the fleet's clock that a device trains in a round, under `inprocess`."""
    workers: int = Field(default=0, ge=0, le=256)
    """Programs beside this one that train, too, on the CPU; at best one for each further core. Each
    of them, and this one, then computes on one thread; on a free-threaded Python they are threads
    of this one. Under `ray` the actors of the cluster, one at least, which train in place of this
    program."""
    worker_cpus: float = Field(default=1.0, gt=0)
    """Processors of the cluster that each worker takes, under `ray`."""
    worker_gpus: float = Field(default=0.0, ge=0, le=1)
    """GPUs that each worker takes, under `ray`: 0, or more than a half, since two would not know of
    each other's memory; several devices train at once on one by `training` `stack`."""
    address: str | None = Field(default=None, min_length=1)
    """Of the cluster's head, under `ray`, like `10.0.0.1:6379`; left out, a cluster is started on
    this machine for the run."""
    store: str | None = Field(default=None, min_length=1)
    """Where devices' memories lie between rounds: a URL of fsspec, or a folder, that all workers
    reach; left out, the run's folder."""
    quorum: Share = 1.0
    """Share of the present devices that closes a stage."""
    deadline_seconds: float = Field(default=3600.0, gt=0)
    """Seconds of the fleet's clock after which a stage closes with what has come."""

    @model_validator(mode="after")
    def _fits_its_kind(self) -> Self:
        for kinds, why, fields in _OF_KINDS:
            for field in fields if self.kind not in kinds else ():
                value = getattr(self, field)
                if value != type(self).model_fields[field].default:
                    raise ValueError(
                        f"{field}: {value!r} beside engine.kind {self.kind!r}; {why}: leave it "
                        f"out, or set that to {kinds[0]!r}"
                    )
        if 0 < self.worker_gpus <= _SHARED_GPU:
            raise ValueError(
                f"worker_gpus: {self.worker_gpus} lets workers share a GPU, whose memory nobody "
                "would divide; give 1, and let devices train at once by engine.training 'stack'"
            )
        return self


class PublishedCurve(Strict):
    """`[[published]]`: accuracy or mean IoU that a paper prints for this protocol, for the plot."""

    label: str = Field(min_length=1)
    """Name of the curve."""
    accuracy: tuple[float, ...] = ()
    """Percent, after every stage; empty where only the two numbers below are printed."""
    average: float | None = None
    """Average incremental accuracy, percent."""
    final: float | None = None
    """Accuracy after the last stage, percent."""
    source: str = ""
    """Where it is printed."""


class EvaluationSettings(Strict):
    """`[evaluation]`: what is measured beside the model's answers."""

    pooled_reference: bool = False
    """Solve the same ridge regression from all images pooled in float64 and report the distance."""
    on_devices: bool = False
    """Under `mqtt`: deal the test images evenly to the agents, who tell how many of them the model
    that they run gets right. From 50 on they also fit the next model's temperature, its
    `logit_scale`: predictions stay, probabilities differ from those of a run without."""
    every_rounds: int = Field(default=1, ge=1)
    """The network is measured after every so many rounds, and after the last of a stage."""
    ensemble: bool = False
    """Of a method whose coordinator distils the devices' models: measure in every round also how
    they answer together, and how their mean does before it is distilled. A round's answers are in
    memory for it."""


def _check_lists(stages: StageSettings) -> None:
    fields = type(stages).model_fields
    beside = [n for n in ONLY_WITHOUT_LISTS if getattr(stages, n) != fields[n].default]
    if beside:
        raise ValueError(
            f"lists: given beside {', '.join(beside)}; the lists say it all, so leave out one "
            f"or the other, on the command line by {_unset(beside)}"
        )
    for number, names in enumerate(stages.lists, start=1):
        if not names:
            raise ValueError(f"lists: stage {number} has no class; give each at least one")
    twice = [
        name for name, n in Counter(n for names in stages.lists for n in names).items() if n > 1
    ]
    if twice:
        raise ValueError(f"lists: {twice[0]!r} stands twice; a class comes with one stage")


def _unset(names: Sequence[str]) -> str:
    return " ".join(f"--unset stages.{name}" for name in names)


def _check_setting(stages: StageSettings, setting: str) -> None:
    fields = type(stages).model_fields
    beside = [n for n in _SAID_BY_SETTING if getattr(stages, n) != fields[n].default]
    if beside:
        raise ValueError(
            f"setting: {setting!r} beside {' and '.join(beside)}; it says both, so leave out one "
            f"or the other, on the command line by {_unset(beside)}"
        )
    if stages.classes is None:
        raise ValueError(
            f"setting: {setting!r} without classes; give the number of classes of all stages, like "
            "20 of Pascal VOC"
        )
    first, step = map(int, setting.split("-"))
    if first > stages.classes:
        raise ValueError(
            f"setting: {setting!r} of {count_of(stages.classes, 'class', 'classes')}; give at most "
            f"{stages.classes} to the first stage"
        )
    left = (stages.classes - first) % step
    if left:
        raise ValueError(
            f"setting: {setting!r} of {count_of(stages.classes, 'class', 'classes')} leaves {left} "
            f"for the last stage; take {count_of(stages.classes - left, 'class', 'classes')}, or "
            "another setting"
        )
