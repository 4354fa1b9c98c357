"""Variants of a frozen part: the same network in fewer bits, for devices that run models.

A variant is a further file of a lineage. Its backbone computes in half precision or in 8-bit
integers; the map behind the backbone, and the head, are those of the reference, bit for bit. Models
run on it; what a device contributes is computed by the reference alone, or sums would be of two
kinds of features (docs/decisions/0022).
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from fleetledger.runtime.strict import Strict
from fleetledger.schemas.file_reference import FileReference
from fleetledger.schemas.message import is_absent
from fleetledger.schemas.offers import Offer
from fleetledger.schemas.values import Digest

VariantName = Literal["fp16", "int8"]
VARIANT_NAMES: tuple[VariantName, ...] = ("fp16", "int8")
VariantChoice = Literal["reference", "auto", "fp16", "int8"]
"""What an owner can have models run on; `auto` looks at what the machine has."""
VARIANT_CHOICES: tuple[VariantChoice, ...] = ("reference", "auto", *VARIANT_NAMES)
MAX_VARIANTS = 4


class Variant(Strict):
    """One variant, as a manifest pins it: its file, and what it costs behind this manifest's head.

    Measured where the model was exported, on images that the variant was not calibrated on.
    """

    name: VariantName
    frozen: FileReference
    """Stands in the place of the manifest's frozen file."""
    samples: int = Field(ge=1)
    agreement: float = Field(ge=0, le=1)
    """Share of the samples whose best class is the reference's."""
    accuracy_lost: float | None = Field(default=None, ge=-1, le=1, exclude_if=is_absent)
    """Accuracy of the reference less that of the variant, where classes of samples are known."""
    tolerance: float = Field(gt=0)
    """Largest difference to a golden score that a device's self-test accepts of it."""
    feature_tolerance: float = Field(gt=0)
    """The same for the golden features: the length of the difference, in lengths of their own."""


class VariantOffer(Strict):
    """The file of a variant, offered with a desired model."""

    name: VariantName
    frozen: Offer
    replaces: Digest
    """The frozen file that whoever takes the variant does without."""
