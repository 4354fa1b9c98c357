"""What a model is: preprocessing, the manifest that pins its files, and the messages about it.

A model is a pair of ONNX files run in a row, `frozen.onnx` and `head.onnx`, so a new class moves
only the head. The manifest pins both and their golden batches by digest. docs/models.md describes
every field.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import Discriminator, Field, Tag, ValidationError, model_validator
from typing_extensions import Self

from fleetledger.runtime.count_words import count_of
from fleetledger.runtime.errors import SchemaError
from fleetledger.runtime.strict import Strict
from fleetledger.schemas.arrays import ArrayPreprocessing
from fleetledger.schemas.canonical import canonical_json, parse_json
from fleetledger.schemas.contributions import MAX_CLASSES
from fleetledger.schemas.file_reference import FileReference
from fleetledger.schemas.message import Items, Message, explain, is_absent
from fleetledger.schemas.offers import MAX_FILE_URLS, FileUrl, Offer
from fleetledger.schemas.releases import SignedRelease
from fleetledger.schemas.rollouts import Count, GroupNumber, LocalHours, Mode, RolloutNumber
from fleetledger.schemas.roots import MAX_ROOTS, SignedRoot
from fleetledger.schemas.text import TensorName, TextPreprocessing
from fleetledger.schemas.values import ClassName, Digest
from fleetledger.schemas.variants import MAX_VARIANTS, Variant, VariantName, VariantOffer

FEATURES = "features"
"""Output of `frozen.onnx`, input of `head.onnx`, tensor of the golden batch."""
SCORES = "scores"
"""First output of `head.onnx`, tensor of the golden scores."""
SMALL_SCORES = "small_scores"
"""Of a network that gives pixels classes: the scores before they are resized to the picture."""
BACKGROUND = "background"
"""Class name of the first row of a network that gives pixels classes, and of no other row."""
PROBABILITIES = "probabilities"
"""Second output of `head.onnx`: softmax of the scores times `logit_scale`."""
NOVELTY = "novelty"
"""Output of some `head.onnx`: from 0 to 1, how new a sample is to all classes together."""
GOLDEN_INPUTS = "inputs"
"""Tensor of the golden batch: preprocessed images or texts, ready for `frozen.onnx`."""

MAX_MANIFEST_BYTES = 4 * 1024**2
_MAX_VALUES = 1 << 17
"""Commas and brackets of a manifest, most of which stand between the names of classes."""
MAX_SIDE = 8192
"""Pixels along one side of a preprocessed image."""
MAX_FEATURES = 1 << 17
MAX_RAW_NUMBERS = 1 << 24
"""Numbers of a sample's raw output: a golden batch holds several of it."""

Answers = Literal["sample", "pixels", "raw"]
"""What a model gives a class: a sample as a whole, each pixel of its picture, or nothing: a raw
output is for the program that reads it."""

Gives = Literal["scores", "probabilities"]
"""What the numbers are that a file of somebody's own puts out."""

Side = Annotated[int, Field(ge=1, le=MAX_SIDE)]
Version = Annotated[int, Field(ge=1, lt=2**31)]


def levels_alone(channels: int) -> str:
    """Return what a preprocessing has to be where a network takes the levels of 8 bits."""
    zeros, ones = ([number] * channels for number in (0.0, 1.0))
    return (
        "'uint8' are levels from 0 to 255 as they are; set divide_by = 1, "
        f"mean = {zeros} and deviation = {ones}"
    )


class Preprocessing(Strict):
    """How an image becomes the input tensor; `learning.numerics.preprocessing` applies it.

    The steps run in the order of the fields: decode to `mode`, resize (and crop) to `size`, divide
    by `divide_by`, subtract `mean`, divide by `deviation`, order the axes as `layout` says.
    """

    mode: Literal["L", "RGB", "BGR"]
    """Grey, or the order of the channels; `mean` and `deviation` have the same."""
    size: tuple[Side, Side]
    """Height and width of the input tensor in pixels."""
    interpolation: Literal["nearest", "bilinear", "bicubic", "lanczos", "opencv_bilinear"] = (
        "bilinear"
    )
    """Filters of Pillow, which smooth what becomes smaller, or OpenCV's, which does not."""
    resize: Literal["stretch", "shorter_side_crop", "letterbox"] = "stretch"
    """Stretch to `size`; or bring the shorter side to `shorter_side` and crop `size` centrally; or
    fit the whole picture into `size` and fill the rest with `pad`."""
    shorter_side: Side | None = None
    pad: Annotated[int, Field(ge=0, le=255)] | None = Field(default=None, exclude_if=is_absent)
    """Level of the borders of a letterbox in every channel, before the division; 114 if absent."""
    divide_by: Literal[1, 255] = 255
    mean: Items[float] = Field(min_length=1, max_length=3)
    """One number per channel, in units of the divided values."""
    deviation: Items[Annotated[float, Field(gt=0)]] = Field(min_length=1, max_length=3)
    layout: Literal["NCHW", "NHWC"] = "NCHW"
    input_name: TensorName
    """Name of the model's one input."""
    dtype: Literal["float32", "float16", "uint8"] = "float32"
    """Type of the input of the operator's file. Devices give float32, which an imported model turns
    into it."""

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        for field, values in (("mean", self.mean), ("deviation", self.deviation)):
            if len(values) != self.channels:
                raise ValueError(
                    f"{field}: {count_of(len(values), 'number')} for mode {self.mode!r}; give one "
                    f"per channel, {self.channels}"
                )
        if self.resize == "stretch" and self.shorter_side is not None:
            raise ValueError("shorter_side: has no meaning with resize 'stretch'; leave it out")
        if self.resize == "letterbox" and self.shorter_side is not None:
            raise ValueError("shorter_side: has no meaning with resize 'letterbox'; leave it out")
        if self.resize != "letterbox" and self.pad is not None:
            raise ValueError(
                f"pad: {self.pad} has no meaning with resize {self.resize!r}; leave it out, or say "
                "resize = 'letterbox'"
            )
        if self.dtype == "uint8" and (
            self.divide_by != 1 or any(self.mean) or any(one != 1 for one in self.deviation)
        ):
            raise ValueError(f"dtype: {levels_alone(self.channels)}")
        if self.resize == "shorter_side_crop" and (self.shorter_side or 0) < max(self.size):
            raise ValueError(
                f"shorter_side: {self.shorter_side} does not cover the crop {self.size}; "
                f"give at least {max(self.size)}"
            )
        return self

    @property
    def channels(self) -> int:
        """Channels of the image: 1 for L, 3 for RGB and BGR."""
        return 1 if self.mode == "L" else 3

    @property
    def shape(self) -> tuple[int, int, int]:
        """Shape of one preprocessed image, without the batch axis."""
        height, width = self.size
        if self.layout == "NCHW":
            return (self.channels, height, width)
        return (height, width, self.channels)


_TAGS = {"text": "<text>", "array": "<array>"}
"""By mode; all other modes are of pictures."""


def _kind(given: Any) -> str:  # noqa: ANN401 - whatever stands where preprocessing should
    """Return the tag of what was given."""
    mode = given.get("mode") if isinstance(given, dict) else getattr(given, "mode", None)
    return _TAGS.get(mode, "<pictures>") if isinstance(mode, str) else "<pictures>"


AnyPreprocessing = Annotated[
    Annotated[Preprocessing, Tag("<pictures>")]
    | Annotated[TextPreprocessing, Tag("<text>")]
    | Annotated[ArrayPreprocessing, Tag("<array>")],
    Discriminator(_kind),
]
"""Of pictures, text or arrays, as `mode` says."""


def of_pictures(preprocessing: AnyPreprocessing) -> Preprocessing:
    """Return the preprocessing of what takes pictures alone; raise `SchemaError`."""
    if not isinstance(preprocessing, Preprocessing):
        raise SchemaError(
            f"preprocessing.mode: {preprocessing.mode!r}, but this takes pictures alone; give 'L', "
            "'RGB' or 'BGR'"
        )
    return preprocessing


def of_networks(preprocessing: AnyPreprocessing) -> Preprocessing | ArrayPreprocessing:
    """Return that of a network which is trained on samples themselves; raise `SchemaError`."""
    if isinstance(preprocessing, TextPreprocessing):
        raise SchemaError(
            "preprocessing.mode: 'text', but the network is trained on samples themselves; train "
            "one on the features of a frozen encoder (docs/text.md)"
        )
    return preprocessing


class Parity(Strict):
    """How closely the exported pair follows the coordinator's own prediction."""

    max_absolute_difference: float = Field(ge=0)
    """Largest difference of a score over all samples and classes."""
    agreement: float = Field(ge=0, le=1)
    """Share of the samples whose best class is the same."""
    samples: int = Field(ge=1)
    runtime: str = Field(min_length=1, max_length=120)
    """Engine, version and provider that ran the pair."""


class Manifest(Strict):
    """Everything a device needs to run and check one version of the model.

    The law: `Manifest.read(manifest.canonical_bytes()) == manifest`. The digest of a manifest is
    that of its canonical bytes, the only form that `read` accepts.
    """

    schema_version: Literal[1] = 1
    version: Version
    method: str = Field(min_length=1, max_length=40)
    lineage: Digest
    """Digest of the frozen file: heads of one lineage fit the same features."""
    frozen: FileReference
    head: FileReference
    golden: FileReference
    golden_scores: FileReference
    class_names: Items[ClassName] = Field(max_length=MAX_CLASSES)
    """Names in the order of the head's rows; a raw output may do without."""
    feature_width: int = Field(ge=1, le=MAX_FEATURES)
    logit_scale: float = Field(gt=0)
    """Inverse temperature: probabilities = softmax(logit_scale * scores)."""
    preprocessing: AnyPreprocessing
    answers: Answers = "sample"
    """What has a class: a sample as a whole, or each pixel of the network's picture. For pixels,
    features are (N, feature_width, h, w), scores (N, C, height, width), and the first of
    `class_names` is `BACKGROUND`. Raw scores are (N, *output_shape) of features (N, feature_width,
    ...). Not written where it is "sample", as manifests never did."""
    output_shape: Items[Annotated[int, Field(ge=1, le=MAX_RAW_NUMBERS)]] = Field(
        default=(), max_length=8
    )
    """Axes of a raw output behind the samples; of no other one, and not written there."""
    parity: Parity
    tolerance: float = Field(gt=0)
    """Largest difference to a golden score that a device's self-test accepts."""
    variants: Items[Variant] = Field(default=(), max_length=MAX_VARIANTS, exclude_if=is_absent)
    """Other files for the place of the frozen one; not written where there are none."""
    ledger_index: int = Field(ge=0, lt=2**63)
    """Index of the ledger entry that recorded the solve."""
    created_ns: int = Field(ge=0, lt=2**63)
    """Nanoseconds since 1970 by the coordinator's clock; for people, never for decisions."""
    key: None = None
    signature: None = None

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if self.lineage != self.frozen.digest:
            raise ValueError(
                f"lineage: {self.lineage.short} is not the frozen file's digest "
                f"{self.frozen.digest.short}; a lineage is named by its frozen file"
            )
        if len(set(self.class_names)) != len(self.class_names):
            raise ValueError("class_names: a name stands twice; each head row has its own name")
        if self.answers != "raw" and not self.class_names:
            raise ValueError("class_names: none; each head row has its own name")
        if (self.answers == "raw") != bool(self.output_shape):
            raise ValueError(
                f"output_shape: {self.output_shape} of a model that answers {self.answers!r}; a "
                "raw output has one, and no other"
            )
        if self.answers == "pixels" and self.class_names[0] != BACKGROUND:
            raise ValueError(
                f"class_names: {self.class_names[0]!r} comes first, but a model of pixels has "
                f"{BACKGROUND!r} there"
            )
        if len({variant.name for variant in self.variants}) != len(self.variants):
            raise ValueError("variants: a name stands twice; a device chooses one by its name")
        return self

    @property
    def files(self) -> tuple[FileReference, ...]:
        """The files of the reference: frozen, head, golden batch, golden scores."""
        return self.files_with(None)

    def variant(self, name: VariantName | None) -> Variant | None:
        """Return the variant of a name; None for the reference, or where there is none such."""
        return next((variant for variant in self.variants if variant.name == name), None)

    def frozen_with(self, name: VariantName | None) -> FileReference:
        """Return the frozen file of a variant, or the reference's."""
        variant = self.variant(name)
        return self.frozen if variant is None else variant.frozen

    def files_with(self, name: VariantName | None) -> tuple[FileReference, ...]:
        """Return the files of a model that runs as a variant, in the order of `files`."""
        return (self.frozen_with(name), self.head, self.golden, self.golden_scores)

    @property
    def digest(self) -> Digest:
        """SHA-256 of the canonical bytes."""
        return Digest.of(self.canonical_bytes())

    def canonical_bytes(self) -> bytes:
        """Return the one byte string of this manifest."""
        fields = self.model_dump(mode="json")
        if self.answers == "sample":
            del fields["answers"]
        if not self.output_shape:
            del fields["output_shape"]
        return canonical_json(fields)

    @classmethod
    def read(cls, data: bytes) -> Self:
        """Read canonical bytes; raise `SchemaError` for anything else."""
        if len(data) > MAX_MANIFEST_BYTES:
            raise SchemaError(f"manifest: {len(data)} bytes exceed {MAX_MANIFEST_BYTES}; refuse it")
        try:
            manifest = cls.model_validate(parse_json(data, _MAX_VALUES))
        except ValidationError as error:
            raise SchemaError(f"manifest: {explain(error)}") from error
        if manifest.canonical_bytes() != data:
            raise SchemaError("manifest: not in canonical form; write it with canonical_bytes()")
        return manifest


MAX_LACKING = 1000
"""Classes that a model may be said to lack."""


class DesiredModel(Message):
    """The model that a device is to run; retained per device. A higher action replaces a lower."""

    kind: ClassVar[str] = "model.desired"
    action: int = Field(ge=0, lt=2**63)
    """Index of the ledger entry that decided it."""
    version: Version
    manifest: Offer
    files: Items[Offer] = Field(min_length=1, max_length=16)
    """Offers of the files that the manifest pins; a device fetches those it lacks."""
    variants: Items[VariantOffer] = Field(default=(), max_length=MAX_VARIANTS, exclude_if=is_absent)
    """Variants of the frozen file; a device fetches the one that its settings choose, and then does
    without the frozen file."""
    reason: str = Field(default="", max_length=500)
    release: SignedRelease | None = None
    """The word of a release key for it; None in a fleet without a root."""
    roots: Items[SignedRoot] = Field(default=(), max_length=MAX_ROOTS)
    """The fleet's newest root documents, oldest first: a device follows them from its own."""
    rollout: RolloutNumber | None = Field(default=None, exclude_if=is_absent)
    """The rollout that it belongs to; with it the device reports a comparison."""
    group: GroupNumber | None = Field(default=None, exclude_if=is_absent)
    """Of that rollout."""
    mode: Mode | None = Field(default=None, exclude_if=is_absent)
    """`shadow`: compare it with the active model and go on with that one; None for `run`."""
    hours: LocalHours | None = Field(default=None, exclude_if=is_absent)
    """When the device may switch; files are fetched outside, too."""
    settle_seconds: float | None = Field(default=None, ge=0, le=1e7, exclude_if=is_absent)
    """How long it runs before the device says that it has settled; None where that is not asked."""
    urls: Items[FileUrl] = Field(default=(), max_length=MAX_FILE_URLS, exclude_if=is_absent)
    """Where some of the files may be had by HTTP, too."""
    lacks: Items[ClassName] = Field(default=(), max_length=MAX_LACKING, exclude_if=is_absent)
    """Names of the fleet's classes that the model does not know: of held-out samples of these it
    is right for none."""

    @property
    def offers(self) -> tuple[Offer, ...]:
        """Every file that is offered with it."""
        return (self.manifest, *self.files, *(variant.frozen for variant in self.variants))


class ModelStatus(Message):
    """How far a device has come with a desired model."""

    kind: ClassVar[str] = "model.status"
    version: Version
    manifest: Digest
    state: Literal[
        "fetching", "verified", "shadowing", "active", "settled", "failed", "rolled_back"
    ]
    reason: str = Field(default="", max_length=500)
    previous_version: Version | None = None
    """The version in the other slot, to which the device can go back; with `shadowing` the one that
    it runs and compares with, None where it runs none and compares nothing."""
    throttled: Count | None = Field(default=None, exclude_if=is_absent)
    """With `settled`: how often the machine slowed itself down since the switch, if it can tell."""
    variant: VariantName | None = Field(default=None, exclude_if=is_absent)
    """With `active`: the variant of the frozen part that runs; None for the reference."""
