"""Phase `share`: blocks of images become the shared set."""

from __future__ import annotations

from methods.dcid.assignment import DcidAssignment
from methods.dcid.combining.told import Told
from methods.dcid.images import (
    MOST_IMAGES,
    Images,
    decode_images,
    digest_of,
    encode_images,
    shuffled,
)
from methods.errors import MethodError
from methods.training_half import SHARED, Asked, Combined, Partial, Summing


class Sharing:
    """Phase `share`: blocks of images become the shared set."""

    def __init__(self, assignment: DcidAssignment, asked: Asked) -> None:
        self._told = Told(assignment, asked)
        new = self._told.classes - self._told.old
        self._most = max(1, new * assignment.settings.shared_per_class)

    def check(self, payload: bytes) -> None:
        """Raise `ContributionError` for anything but some of a site's images."""
        self.images(payload)

    def summing(self, most: int) -> Summing:
        """Return an empty collection; raise `MethodError` if so many sites share too much."""
        if most * self._most > MOST_IMAGES:
            raise MethodError(
                f"shared_per_class: {most} sites may share {most * self._most} images, and "
                f"{MOST_IMAGES} are the most; set shared_per_class lower"
            )
        return _Blocks(self)

    def combined(self, total: Summing) -> Combined:
        """Return the weights as they were, and the shared set."""
        assert isinstance(total, _Blocks)
        asked = self._told.asked
        if not total.blocks:
            raise MethodError("answers: there is none; a shared set needs one at least")
        images = shuffled(total.blocks, asked.seed)
        extras = {**asked.extras, SHARED: encode_images(images)}
        return Combined(asked.weights, extras, digest_of(images), len(images), 0.0)

    def images(self, payload: bytes) -> Images:
        """Return an answer's images; raise `ContributionError` for anything else."""
        return decode_images(payload, self._told.assignment.input_shape, self._most)


class _Blocks:
    def __init__(self, phase: Sharing) -> None:
        self._phase = phase
        self.blocks: list[Images] = []

    def add(self, payload: bytes, samples: int) -> None:
        """Take in a site's images."""
        del samples
        self.blocks.append(self._phase.images(payload))

    def partial(self) -> Partial:
        """Return the blocks."""
        return Partial((), tuple(self.blocks))

    def join(self, other: Partial) -> None:
        """Take in other blocks; in which order does not matter."""
        self.blocks.extend(other.arrays)
