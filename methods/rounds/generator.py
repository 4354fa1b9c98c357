"""TARGET at the coordinator: a generator learns images from the fleet's model, without any data.

Zhang et al., "TARGET: Federated Class-Continual Learning via Exemplar-Free Distillation", ICCV
2023.
With theta the fleet's model, theta_S a student, z ~ N(0, I), labels y by chance, x^ = G(z):

    L_G = labels L_ce + statistics L_bn + adversary L_kl
    L_ce   CE(theta(x^), y)
    L_bn   sum over layers l of || mu_l(x^) - mu_l || + || sigma_l^2(x^) - sigma_l^2 ||
    L_kl   - mean of [argmax theta(x^) = argmax theta_S(x^)] KL(theta(x^) || theta_S(x^))

mu_l and sigma_l^2 are the running statistics of batch normalisation l, and of its inputs. Images
come in batches: for each, z is drawn and trained with G, and the images of the step with the least
L_G are kept. Then the student learns of all images so far: tau^2 KL(theta(x^) || theta_S(x^)), both
at temperature tau. The first batch has no student yet.

Everything is drawn from the round's seed, and computed on one thread of torch: the same bytes on
one kind of machine.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import cos, pi

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional

from fleetledger.learning.errors import TrainingError
from fleetledger.learning.losses.composition import ComposedLoss, Weighted
from fleetledger.learning.losses.cross_entropy import cross_entropy
from fleetledger.learning.losses.terms import Divergence
from fleetledger.learning.networks.body import EPSILON, MOMENTUM
from fleetledger.learning.networks.conversion import to_tensors
from fleetledger.learning.networks.head import row_inputs
from fleetledger.learning.networks.network import Network
from fleetledger.learning.networks.pictures import Pictures
from fleetledger.learning.networks.plan import (
    TensorPlan,
    convolution_plan,
    initial_arrays,
    linear_plan,
)
from fleetledger.learning.networks.seeding import stream_key
from fleetledger.learning.networks.torch_layers import (
    Mode,
    Tensors,
    TorchLayers,
    forward,
    head_logits,
)
from fleetledger.learning.numerics.counter_generator import random_words
from fleetledger.learning.numerics.noise import normal_noise
from fleetledger.learning.training.chance import Chance
from fleetledger.learning.training.devices import one_torch_thread
from fleetledger.learning.training.loop import train_alone
from fleetledger.learning.training.settings import TrainingEngineSettings
from fleetledger.learning.training.work import Batching, Data, Sgd, Work
from fleetledger.methods.errors import MethodError
from fleetledger.methods.rounds.assignment import RoundsAssignment
from fleetledger.methods.rounds.settings import GeneratorSettings
from fleetledger.methods.training.exchange import RoundConfig
from fleetledger.methods.training.network_weights import decode_weights

Images = npt.NDArray[np.uint8]
Model = tuple[Tensors, Tensors]
"""Parameters and buffers."""

_LATENT_RATE, _BETAS, _SLOPE = 0.01, (0.5, 0.999), 0.2
_STUDENT_MOMENTUM, _STUDENT_DECAY = 0.9, 1e-4
_TEACHER = "teacher"


def made_images(
    assignment: RoundsAssignment, settings: GeneratorSettings, config: RoundConfig, weights: bytes
) -> Images:
    """Return synthetic images (n, c, h, w) of the fleet's `weights`; raise `MethodError`."""
    if not config.mean:
        raise MethodError(
            "asked: has no mean and deviation of pictures, and the generator needs them"
        )
    arrays, names = decode_weights(weights, assignment.network)
    seed = stream_key(config.seed, "generator", *names)
    pictures = Pictures(config.mean, config.deviation)
    student = assignment.network.initial(seed, names)
    making = _Making(
        assignment.network, settings, pictures, seed, to_tensors(arrays), to_tensors(student)
    )
    with one_torch_thread():
        return making.images(assignment.input_shape, len(names))


@dataclass
class _Making:
    network: Network
    settings: GeneratorSettings
    pictures: Pictures
    seed: int
    teacher: Model
    student: Model

    def images(self, shape: tuple[int, ...], classes: int) -> Images:
        """Return the images, batch by batch."""
        settings = self.settings
        parameters = _first_generator(settings, shape, self.seed)
        optimiser = torch.optim.Adam(parameters.values(), settings.rate, betas=_BETAS)
        batches, rounds = list[Images](), -(-settings.images // settings.batch)
        for number in range(rounds):
            secret = b"%d/%d" % (self.seed, number)
            drawn = normal_noise(secret, settings.batch * settings.latent)
            z = torch.tensor(drawn, dtype=torch.float32).view(settings.batch, -1)
            words = random_words(stream_key(self.seed, "labels", number), 0, settings.batch)
            labels = torch.from_numpy((words % np.uint64(classes)).astype(np.int64))
            batches.append(self._batch(parameters, optimiser, z, labels, shape, number > 0))
            if settings.adversary and number + 1 < rounds:
                self._teach(np.concatenate(batches), number, rounds)
        return np.concatenate(batches)[: settings.images]

    def _batch(
        self,
        parameters: Tensors,
        optimiser: torch.optim.Optimizer,
        z: Tensor,
        labels: Tensor,
        shape: tuple[int, ...],
        taught: bool,
    ) -> Images:
        """Train the generator, and return the images of its best step."""
        z.requires_grad_()
        of_latent = torch.optim.Adam([z], _LATENT_RATE, betas=_BETAS)
        least, best = float("inf"), torch.empty(0)
        for _ in range(self.settings.steps):
            made = generated(parameters, z, shape)
            loss = self._loss(self.pictures.normalise(made * 255), labels, taught)
            value = float(loss.detach())
            if value < least:
                least, best = value, made.detach()
            optimiser.zero_grad()
            of_latent.zero_grad()
            loss.backward()
            optimiser.step()
            of_latent.step()
        if not len(best):
            raise MethodError("generator: its loss is not finite; set generator.rate lower")
        found: Images = (best * 255).round().to(torch.uint8).numpy()
        return found

    def _loss(self, inputs: Tensor, labels: Tensor, taught: bool) -> Tensor:
        settings = self.settings
        logits, distance = measured(self.network, self.teacher, inputs)
        loss = settings.labels * cross_entropy(logits, labels, None)
        loss = loss + settings.statistics * distance
        if settings.adversary and taught:
            known = forward(self.network, *self.student, inputs, Mode()).logits
            loss = loss + settings.adversary * disagreement(logits, known)
        return loss

    def _teach(self, images: Images, number: int, rounds: int) -> None:
        """Train the student on all images so far; its rate falls to zero over the batches."""
        settings, tau = self.settings, self.settings.student_temperature
        parameters, buffers = self.teacher
        rate = settings.student_rate * 0.5 * (1 + cos(pi * number / rounds))
        work = Work(
            *self.student,
            data=Data.of(images, torch.zeros(len(images), dtype=torch.int64)),
            loss=ComposedLoss(self.network, (Weighted(tau * tau, Divergence(_TEACHER, tau)),)),
            optimiser=Sgd((rate,) * settings.student_epochs, _STUDENT_MOMENTUM, _STUDENT_DECAY),
            batching=Batching(settings.batch),
            chance=Chance(self.seed, "student", round=number),
            frozen={_TEACHER: {"parameters": parameters, "buffers": buffers}},
            pictures=self.pictures,
        )
        try:
            trained = train_alone(work, TrainingEngineSettings())
        except TrainingError as error:
            raise MethodError(f"student: {error}") from error
        self.student = trained.parameters, trained.buffers


@dataclass(eq=False)
class _Measuring(TorchLayers):
    """A network in use that measures how far the inputs of its norms are from what they expect."""

    distances: list[Tensor] = field(default_factory=list)

    def batch_norm(
        self, name: str, values: Tensor, epsilon: float = EPSILON, momentum: float = MOMENTUM
    ) -> Tensor:
        """Return the normalisation by running statistics."""
        axes = [axis for axis in range(values.dim()) if axis != 1]
        variance, mean = torch.var_mean(values, dim=axes, correction=0)
        known, spread = self._statistics(name)
        self.distances += [(mean - known).norm(), (variance - spread).norm()]
        return super().batch_norm(name, values, epsilon, momentum)


def measured(network: Network, model: Model, inputs: Tensor) -> tuple[Tensor, Tensor]:
    """Return the logits (n, C) of a model in use, and L_bn."""
    parameters, buffers = model
    layers = _Measuring(parameters, buffers, Mode())
    features = network.body.features(layers, inputs)
    rows = row_inputs(network.head, layers, features, network.head_dropout)
    return head_logits(parameters, rows), torch.stack(layers.distances).sum()


def disagreement(logits: Tensor, student: Tensor) -> Tensor:
    """Return L_kl of scores (n, C) of the fleet's model and the student; both have gradients."""
    known, own = logits.log_softmax(dim=1), student.log_softmax(dim=1)
    apart = functional.kl_div(own, known, reduction="none", log_target=True).sum(dim=1)
    return -(apart * (logits.argmax(dim=1) == student.argmax(dim=1))).mean()


def generated(parameters: Tensors, z: Tensor, shape: Sequence[int]) -> Tensor:
    """Return images (n, c, h, w) from 0 to 1 of z (n, latent).

    A linear layer makes maps of a quarter of the size, which are doubled twice with a convolution
    after each, and a third makes colours. Norms are by the batch.
    """
    quarter, half, whole = _sizes(shape)
    values = functional.linear(z, parameters["linear.weight"], parameters["linear.bias"])
    values = _normalised(parameters, "norm0", values.view(len(z), -1, *quarter))
    for layer, size in ((1, half), (2, whole)):
        values = functional.interpolate(values, size=size)
        values = functional.conv2d(values, parameters[f"conv{layer}.weight"], padding=1)
        values = functional.leaky_relu(_normalised(parameters, f"norm{layer}", values), _SLOPE)
    values = functional.conv2d(values, parameters["conv3.weight"], parameters["bias"], padding=1)
    return values.sigmoid()


def _normalised(parameters: Tensors, name: str, values: Tensor) -> Tensor:
    gain, shift = parameters[f"{name}.weight"], parameters[f"{name}.bias"]
    return functional.batch_norm(values, None, None, gain, shift, training=True)


def _sizes(shape: Sequence[int]) -> list[tuple[int, int]]:
    return [(-(-shape[1] // part), -(-shape[2] // part)) for part in (4, 2, 1)]


def _first_generator(settings: GeneratorSettings, shape: Sequence[int], seed: int) -> Tensors:
    widths = (2 * settings.width, 2 * settings.width, settings.width)
    (high, wide), *_ = _sizes(shape)
    plans = linear_plan("linear", settings.latent, widths[0] * high * wide)
    for layer, (inputs, outputs) in enumerate(pairwise((*widths, shape[0])), 1):
        plans += convolution_plan(f"conv{layer}", inputs, outputs, 3)
    for layer, width in enumerate(widths):
        plans.append(TensorPlan(f"norm{layer}.weight", (width,), centre=1.0))
        plans.append(TensorPlan(f"norm{layer}.bias", (width,)))
    plans.append(TensorPlan("bias", (shape[0],)))
    arrays = initial_arrays(plans, stream_key(seed, "generator"))
    return {name: torch.tensor(array, requires_grad=True) for name, array in arrays.items()}
