"""Through what devices see their images: a frozen network, or only the size of pictures."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator
from typing_extensions import Self

from fleetledger.runtime.errors import InvalidValueError
from fleetledger.runtime.strict import Strict

LEAST_SIDE, MOST_SIDE = 8, 1024
"""Pixels that a picture may have along a side as a network sees it."""


def _sides(value: Any) -> Any:  # noqa: ANN401 - not checked yet
    """Refuse what is neither a side nor a height and a width, in words of its own."""
    sides = value if isinstance(value, list | tuple) and len(value) == 2 else [value]
    if not all(type(side) is int and LEAST_SIDE <= side <= MOST_SIDE for side in sides):
        way_out = f"give one side of {LEAST_SIDE} to {MOST_SIDE} pixels, or [height, width]"
        raise InvalidValueError("size", value, way_out)
    return value


Size = Annotated[int | tuple[int, int], BeforeValidator(_sides)]


class CharacterSettings(Strict):
    """`[backbone.characters]`: a small recurrent network that learns to predict characters."""

    width: int = Field(default=256, ge=1, le=4096)
    """Features of a text."""
    epochs: int = Field(default=30, ge=1)
    """Most passes over the public text; the weights that predict its held-out tenth best stay."""
    seed: int = Field(default=1, ge=0)
    """Of first weights and order. All seeds of a scenario share the encoder, as they do a file."""


class BackboneSettings(Strict):
    """`[backbone]`: the frozen network that every device sees its images with.

    A fleet that trains a network on pictures has none; of this section it takes `size` alone. One
    that trains a network on features sees its images with this one. One that trains adapters in a
    large network (`vit_b_16`) names it here, by `torchvision`, with the weights that nobody trains.
    """

    network: Literal["pixels", "file", "torchvision", "mobilenet-v2", "characters", "rocket"] = (
        "pixels"
    )
    """`pixels`: the pixels themselves. `file`: an ONNX file of yours. `torchvision`: a network of
    torchvision, exported here (needs torch). `mobilenet-v2`: torchvision's of that name, built
    here without torch. `characters`: for texts, an encoder that learns here from the public part
    of the text (needs torch). `rocket`: for windows of sensors, random convolutions in time. Of
    arrays `pixels` are the numbers themselves."""
    file: str | None = None
    """ONNX file, with its preprocessing in a JSON or TOML file of the same name."""
    name: str | None = None
    """Name of torchvision's network, such as `mobilenet_v2`."""
    weights: str | None = None
    """File with its weights, or torchvision's name for them; left out, random weights. Of
    `mobilenet-v2` a safetensors file."""
    layers: tuple[str, ...] = Field(default=(), max_length=64)
    """Layers whose means over the pixels are the features, side by side; left out, the last. Values
    or nodes of the ONNX file, or modules of torchvision's, like `features.14`."""
    mirror: bool = False
    """Whether features are the mean of those of the picture and of its mirror image."""
    centred: bool = False
    """Whether colours go from -1 to 1 (mean and deviation 0.5), as vision transformers that were
    trained on ImageNet-21k want them, instead of by ImageNet's mean and deviation."""
    size: Size | None = None
    """Side of the input in pixels, 8 to 1024, or of pictures with masks [height, width]; left out,
    what the images (`pixels`) or the network have."""
    characters: CharacterSettings = CharacterSettings()
    """How the encoder of `characters` learns."""

    @property
    def shape(self) -> tuple[int, int] | None:
        """Height and width of the input; None where the images or the network decide."""
        return (self.size, self.size) if isinstance(self.size, int) else self.size

    @model_validator(mode="after")
    def _names_what_it_needs(self) -> Self:
        if self.network == "file" and self.file is None:
            raise ValueError("file: missing; give the path of an ONNX file")
        if self.network == "torchvision" and self.name is None:
            raise ValueError("name: missing; give a network of torchvision, like mobilenet_v2")
        return self
