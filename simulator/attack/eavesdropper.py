"""An eavesdropper on a proxy's branch: bytes in, label and picture out.

It knows what every member of the fleet knows, the assignment and so the encoding network, and sees
the payload of one device. Nothing else of the device is used here.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from fleetledger.methods.lga.encoding import LAYERS, Encoding
from fleetledger.methods.lga.gradient_sets import decode_gradients, encode_gradients
from fleetledger.methods.lga.inversion import InversionSettings, invert, peak_signal_to_noise
from fleetledger.methods.lga.prototypes import gradient_sets, perturbed, prototypes_of
from fleetledger.methods.lga.recovery import recover_label
from fleetledger.simulator.attack.victim import AttackSettings, assignment_of, images_of, model_of


@dataclass(frozen=True, eq=False)
class InvertedGradients:
    """What the payload told."""

    label: int
    """Output of the encoding network."""
    picture: Tensor
    """(c, s, s), cut to 0 to 1."""
    distance: float
    """From the gradients, squared."""


@dataclass(frozen=True, eq=False)
class Attack:
    """A prototype, what the device made of it, and what was heard without and with that."""

    label: int
    rows: tuple[str, ...]
    """Names of the outputs."""
    truth: Tensor
    perturbed: Tensor
    without: InvertedGradients
    heard: InvertedGradients

    @property
    def pictures(self) -> dict[str, Tensor]:
        """Return the four pictures (c, s, s) by name."""
        return {
            "truth": self.truth,
            "perturbed": self.perturbed,
            "found-without": self.without.picture,
            "found-with": self.heard.picture,
        }

    def decibels(self, name: str) -> float:
        """Return the PSNR of one of the pictures against the truth."""
        return peak_signal_to_noise(self.pictures[name].clamp(0, 1), self.truth)


def listen(encoding: Encoding, payload: bytes, seed: int) -> InvertedGradients:
    """Return what an eavesdropper makes of the first set of gradients in a payload."""
    gradients = decode_gradients(encoding, payload)[0].gradients
    label = recover_label(gradients[f"{LAYERS}.weight"].numpy())
    found = invert(encoding, [gradients], [label], InversionSettings(), seed)
    return InvertedGradients(label, found.pictures[0].float().clamp(0, 1), found.distances[0])


def attack(settings: AttackSettings) -> Attack:
    """Return what becomes of a device's prototype; raises the errors of the victim's rooms."""
    name, images = images_of(settings)
    assignment = assignment_of(settings, images)
    model = model_of(settings, assignment, name)
    prototypes = prototypes_of(model, {name: images})
    secret = f"attack/{settings.seed}".encode()
    changed = perturbed(assignment.settings, model, prototypes, secret)
    encoding = assignment.encoding
    without, heard = (
        listen(
            encoding,
            encode_gradients(gradient_sets(encoding, prototypes, pictures)),
            settings.seed,
        )
        for pictures in (prototypes.pictures, changed)
    )
    truth = prototypes.pictures[0].to(torch.float32)
    return Attack(int(prototypes.labels[0]), tuple(model.rows), truth, changed[0], without, heard)
