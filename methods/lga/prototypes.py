"""Prototypes of a device's new classes: chosen, perturbed, and encoded as gradients.

    x_c*   the image whose feature, of length 1, is nearest to the mean of its class's
    (13)   L_PC = CE(head(F(x) + eps N(0, diag(sigma_c^2))), c)
    (14)   x <- x - mu grad_x L_PC,   values from 0 to 1 to begin with, not bounded afterwards

F and head are what the device has just trained, in use; sigma_c^2 (d,) is the variance of the
features of its images of c, and the mean of it, Tr(Delta_c) / d, goes along. The released program
has no noise, feeds values from 0 to 1 where the network knows normalised ones, and lets the image
decay a little.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from fleetledger.learning.networks.conversion import brought_home, copied_together
from fleetledger.learning.networks.inference import Inference
from fleetledger.learning.networks.network import Network
from fleetledger.learning.networks.pictures import Pictures
from fleetledger.learning.networks.torch_layers import Mode, Tensors, forward, head_logits
from fleetledger.learning.numerics.herding import herd
from fleetledger.learning.numerics.noise import normal_noise
from fleetledger.learning.training.resident import SampleArray, tensor_of
from fleetledger.methods.lga.encoding import Encoding
from fleetledger.methods.lga.gradient_sets import GradientSet
from fleetledger.methods.lga.settings import LgaSettings
from fleetledger.schemas.values import ClassName

_INFERENCE_BATCH = 256


@dataclass(frozen=True, eq=False)
class TrainedModel:
    """What a device has just trained."""

    network: Network
    parameters: Tensors
    buffers: Tensors
    pictures: Pictures
    rows: tuple[ClassName, ...]
    """Of the head."""


@dataclass(frozen=True, eq=False)
class Prototypes:
    """One for each of some classes, in the order of their names."""

    pictures: Tensor
    """(k, c, s, s), 0 to 1."""
    labels: Tensor
    """(k,): rows of the head, which are outputs of Gamma."""
    variances: Tensor
    """sigma_c^2 (k, d)."""
    names: tuple[ClassName, ...]

    @property
    def traces(self) -> list[float]:
        """Return Tr(Delta_c) / d of each class."""
        traces: list[float] = self.variances.double().mean(dim=1).tolist()
        return traces


def prototypes_of(model: TrainedModel, images: Mapping[ClassName, SampleArray]) -> Prototypes:
    """Return the prototypes of classes by their images, uint8 (n, c, s, s), n > 0.

    A class of one image has no variance: zeros.
    """
    infer = Inference(_INFERENCE_BATCH, model.pictures)
    place = next(iter(model.parameters.values())).device
    names, chosen, variances = tuple(sorted(images)), [], []
    for name in names:
        inputs = tensor_of(images[name]).to(place)
        features = infer(model.network, model.parameters, model.buffers, inputs).features
        (nearest,) = herd(brought_home(features).numpy(), 1)
        chosen.append(inputs[nearest].to(features.dtype) / 255)
        spread = features.double().var(dim=0) if len(features) > 1 else features[0].double() * 0
        variances.append(spread.to(features.dtype))
    labels = torch.tensor([model.rows.index(name) for name in names], device=place)
    return Prototypes(torch.stack(chosen), labels, torch.stack(variances), names)


def perturbed(
    settings: LgaSettings, model: TrainedModel, prototypes: Prototypes, secret: bytes
) -> Tensor:
    """Return the pictures (k, c, s, s) after (14); noise is drawn by `secret`."""
    pictures = prototypes.pictures.detach().clone()
    noise = _noise(settings, prototypes, secret)
    for step in range(settings.perturbation_steps):
        with torch.enable_grad():
            leaf = pictures.detach().requires_grad_()
            loss = _loss(settings, model, leaf, prototypes.labels, noise[:, step])
            (gradient,) = torch.autograd.grad(loss, leaf)
        moves = gradient + settings.perturbation_decay * pictures
        pictures = pictures - settings.perturbation_rate * moves
    return pictures


def gradient_sets(
    encoding: Encoding, prototypes: Prototypes, pictures: Tensor
) -> list[GradientSet]:
    """Return the gradients of the prototypes' pictures on the processor, and their traces."""
    found = copied_together(encoding.gradients(pictures, prototypes.labels), "cpu")
    return [
        GradientSet({name: values[row] for name, values in found.items()}, trace)
        for row, trace in enumerate(prototypes.traces)
    ]


def _loss(
    settings: LgaSettings, model: TrainedModel, pictures: Tensor, labels: Tensor, noise: Tensor
) -> Tensor:
    """Return the sum of L_PC over the classes, so that each has a gradient of its own."""
    plain = settings.perturbation_inputs == "plain"
    inputs = pictures if plain else model.pictures.normalise(255 * pictures)
    features = forward(model.network, model.parameters, model.buffers, inputs, Mode()).features
    logits = head_logits(model.parameters, features + noise)
    if settings.loss == "softmax":
        return functional.cross_entropy(logits, labels, reduction="sum")
    targets = functional.one_hot(labels, logits.shape[1]).to(logits.dtype)
    losses = functional.binary_cross_entropy_with_logits(logits, targets, reduction="none")
    return losses.mean(dim=1).sum()


def _noise(settings: LgaSettings, prototypes: Prototypes, secret: bytes) -> Tensor:
    """Return eps N(0, diag(sigma_c^2)) of every class and step, (k, steps, d)."""
    variances = prototypes.variances
    shape = (settings.perturbation_steps, variances.shape[1])
    if not settings.perturbation_noise:
        return variances.new_zeros(len(variances), *shape)
    drawn = [
        normal_noise(secret + b"/" + name.encode(), shape[0] * shape[1]).reshape(shape)
        for name in prototypes.names
    ]
    normal = torch.from_numpy(np.stack(drawn)).to(variances.device, variances.dtype)
    return settings.perturbation_noise * variances.sqrt().unsqueeze(1) * normal
