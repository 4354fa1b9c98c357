"""Modules from outside, carried out by torch: made, described by a dry run, called with tensors.

A module is called with an agent's tensors in the places of its own, as `torch.func.functional_call`
does it, so its own serve as names and shapes only. Where these places are is found once. They hold
the agent's for the time of the call, hence a copy of the module for every thread.
What a module draws in training (dropout) comes from torch's own generator, which every step of
every agent begins anew by its key: on one machine a result is the same in whatever order agents
are trained.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from fleetledger.learning.errors import NetworkError, TrainingError
from fleetledger.learning.networks.module_source import PREFIX, ModuleSource
from fleetledger.learning.networks.plan import BUFFERS, OTHER_BUFFER
from fleetledger.learning.networks.seeding import stream_key

Norms = nn.modules.batchnorm._NormBase
"""Layers that measure a batch in training, or each sample, and may follow what they measure."""

_KEPT = 8
"""Modules that a thread keeps."""
_ROWS = 2
"""Samples of a dry run."""
_GENERATOR = threading.Lock()
"""Of torch's generator, which all threads share, while a module draws."""


@dataclass(frozen=True)
class ModuleTensor:
    """A tensor of a module that is averaged and sent."""

    name: str
    """What it is called among a network's."""
    path: str
    """What it is called in the module."""
    shape: tuple[int, ...]
    trained: bool


@dataclass(frozen=True)
class Description:
    """What a dry run found."""

    width: int
    tensors: tuple[ModuleTensor, ...]
    draws: bool
    """Whether it draws by chance in training."""


Place = tuple[dict[str, Any], str]
"""Tensors of a part of a module by name, and the name of one."""


@dataclass(eq=False)
class Copy:
    """A module that one thread calls, on one device."""

    module: nn.Module
    norms: tuple[nn.Module, ...]
    places: Mapping[str, Sequence[Place]]
    """Of each tensor by its path, its own first; a shared one has several."""
    buffers: Mapping[str, Tensor]
    mode: tuple[bool, bool] | None = None

    @classmethod
    def of(cls, module: nn.Module) -> Copy:
        """Return a module with its norms and the places of its tensors."""
        norms = tuple(part for part in module.modules() if isinstance(part, Norms))
        return cls(module, norms, places_in(module), dict(module.named_buffers()))

    def call(self, state: dict[str, Tensor], inputs: Tensor) -> Any:  # noqa: ANN401 - the module's
        """Return what the module makes of inputs with tensors by their paths.

        Those that it puts in their places are in `state` afterwards.
        """
        places = [(path, self.places[path]) for path in state]
        own = [held[name] for _, ((held, name), *_) in places]
        try:
            for path, every in places:
                for held, name in every:
                    held[name] = state[path]
            return self.module(inputs)
        finally:
            for (path, every), before in zip(places, own, strict=True):
                held, name = every[0]
                state[path] = held[name]
                for held, name in every:
                    held[name] = before

    def set_mode(self, *, training: bool, measured: bool) -> None:
        """Let layers train or not, and norms measure or not."""
        if self.mode == (training, measured):
            return
        self.module.train(training)
        for norm in self.norms:
            norm.train(measured)
        self.mode = (training, measured)


def made(body: ModuleSource, seed: int) -> nn.Module:
    """Return a new module in use, on the processor and in float32, drawn from `seed`.

    Raises `NetworkError` for a factory that fails or returns anything else, and for a module that
    makes no features of its inputs.
    """
    with _drawn(stream_key(seed, "network"), torch.device("cpu")):
        try:
            module = body.factory(body.shape, **dict(body.options))
        except Exception as error:
            raise NetworkError(f"{_named(body)} cannot be made: {_shown(error)}") from error
        if not isinstance(module, nn.Module):
            raise NetworkError(
                f"{_named(body)} is a {type(module).__name__}; its factory must return a "
                "torch.nn.Module"
            )
        module = module.float().eval()
        _features(body, module)  # lazy layers draw now
    return module


@lru_cache(64)
def described(body: ModuleSource) -> Description:
    """Return what a dry run finds, in use and in training; raise `NetworkError` as `made` does.

    Refuses what cannot be averaged: complex numbers, norms that count batches, parameters with the
    name of a buffer.
    """
    module = made(body, 0)
    width = _features(body, module).shape[1]
    tensors = tuple(_tensors(body, module))
    if not any(one.trained for one in tensors):
        raise NetworkError(f"{_named(body)} has nothing to train; give a module with parameters")
    for path, norm in module.named_modules():
        if isinstance(norm, Norms) and norm.track_running_stats and norm.momentum is None:
            raise NetworkError(
                f"{_named(body)} has momentum=None in {path!r}, which counts batches, and devices' "
                "counts have no mean; give it a momentum, such as 0.1"
            )
    with _drawn(0, torch.device("cpu")):
        before = torch.get_rng_state()
        _features(body, module.train())
        draws = not torch.equal(before, torch.get_rng_state())
    return Description(width, tensors, draws)


@lru_cache(1)
def first_values(body: ModuleSource, seed: int) -> Mapping[str, npt.NDArray[np.float32]]:
    """Return what the factory draws from `seed`, by the names of a network's tensors."""
    state = made(body, seed).state_dict()
    return {
        one.name: state[one.path].detach().numpy().astype(np.float32)
        for one in described(body).tensors
    }


def module_with(body: ModuleSource, arrays: Mapping[str, npt.NDArray[Any]]) -> nn.Module:
    """Return a new module in use with a network's tensors."""
    module = made(body, 0)
    found = {one.path: torch.tensor(arrays[one.name]) for one in described(body).tensors}
    module.load_state_dict({**module.state_dict(), **_all_names(module, found)})
    return module


def momentum_of(body: ModuleSource, name: str) -> float | None:
    """Return a batch's share in running statistics of that name; None where it is none of them."""
    if name.endswith(OTHER_BUFFER):
        return None
    norm = copy_of(body, torch.device("cpu")).module.get_submodule(
        name.removeprefix(PREFIX).rpartition(".")[0]
    )
    return float(norm.momentum) if isinstance(norm, Norms) and norm.momentum else None


_LOCAL = threading.local()


def copy_of(
    body: ModuleSource,
    device: torch.device,
    change: Callable[[nn.Module], nn.Module] | None = None,
) -> Copy:
    """Return this thread's module on a device, after `change`, a function of a file."""
    kept: OrderedDict[Any, Copy] = _LOCAL.__dict__.setdefault("copies", OrderedDict())
    key = (body, device, change)
    if key not in kept:
        module = made(body, 0).to(device)
        module = module if change is None else change(module)
        kept[key] = Copy.of(module)
        while len(kept) > _KEPT:
            kept.popitem(last=False)
    kept.move_to_end(key)
    return kept[key]


@dataclass(frozen=True, eq=False)
class Passing:
    """How a module is called once."""

    training: bool
    measured: bool
    """Whether norms measure the batch and buffers follow it."""
    owned: bool
    """Whether buffers may be changed in place."""
    seed: Callable[[], int] | None
    """Makes the number that torch's generator begins with."""
    inner: frozenset[str] = frozenset()
    """Submodules whose outputs are kept."""


def called(
    body: ModuleSource,
    parameters: Mapping[str, Tensor],
    buffers: Mapping[str, Tensor],
    inputs: Tensor,
    how: Passing,
) -> tuple[Tensor, dict[str, Tensor], dict[str, Tensor]]:
    """Return features (n, d) of inputs (n, ...), buffers that changed, and inner outputs.

    Raises `TrainingError` where a module draws and has no source of chance.
    """
    copy, found = copy_of(body, inputs.device), described(body)
    copy.set_mode(training=how.training, measured=how.measured)
    state = {one.path: parameters[one.name] for one in found.tensors if one.trained}
    follow = {one.path: one.name for one in found.tensors if not one.trained}
    in_place = how.measured and how.owned
    for path, name in follow.items():
        state[path] = buffers[name].clone() if how.training and not in_place else buffers[name]
    if how.training:  # nor do counters go on in the copy
        for path, buffer in copy.buffers.items():
            if path not in state:
                state[path] = buffer.clone()
    if not (how.inner or found.draws):
        features, seen = copy.call(state, inputs), dict[str, Tensor]()
    else:
        chance = _chance(found, how, inputs.device)
        with watched(copy.module, how.inner, body.name) as seen, chance:
            features = copy.call(state, inputs)
    changed = {name: state[path] for path, name in follow.items()} if how.measured else {}
    return features, changed, seen


def places_in(module: nn.Module) -> dict[str, list[Place]]:
    """Return where a module holds each tensor, by all its paths: there, and where it shares it."""
    found: dict[str, Place] = {}
    shared: dict[int, list[Place]] = {}
    for prefix, part in module.named_modules():
        for held in (part._parameters, part._buffers):
            for name, tensor in held.items():
                if tensor is not None:
                    place = held, name
                    found[f"{prefix}.{name}" if prefix else name] = place
                    shared.setdefault(id(tensor), []).append(place)
    return {
        path: [place, *(one for one in shared[id(place[0][place[1]])] if one is not place)]
        for path, place in found.items()
    }


@contextmanager
def watched(module: nn.Module, names: frozenset[str], network: str) -> Iterator[dict[str, Tensor]]:
    """Keep what submodules put out inside, by name; of a tuple its first tensor."""
    seen: dict[str, Tensor] = {}

    def keep(name: str) -> Callable[[nn.Module, Any, Any], None]:
        def hook(_module: nn.Module, _inputs: Any, output: Any) -> None:  # noqa: ANN401 - torch's
            seen[name] = output[0] if isinstance(output, tuple) else output

        return hook

    parts = dict(module.named_modules()) if names else {}
    missing = sorted(names - parts.keys())
    if missing:
        known = ", ".join(sorted(filter(None, parts)))
        raise NetworkError(f"inner: {network!r} has no layer {missing[0]!r}; it has {known}")
    hooks = [parts[name].register_forward_hook(keep(name)) for name in names]
    try:
        yield seen
    finally:
        for hook in hooks:
            hook.remove()


@contextmanager
def _chance(found: Description, how: Passing, device: torch.device) -> Iterator[None]:
    """Draw what the step's key says, if anything is drawn."""
    if not (found.draws and how.training):
        yield
        return
    if how.seed is None:
        raise TrainingError("dropout: training needs a source of chance; set mode.seed")
    with _drawn(how.seed(), device):
        yield


@contextmanager
def _drawn(seed: int, device: torch.device) -> Iterator[None]:
    """Begin torch's generators from `seed` inside, and have them as before behind."""
    cards = [device] if device.type == "cuda" else []
    with _GENERATOR, torch.random.fork_rng(devices=cards):
        torch.manual_seed(seed)
        yield


def _features(body: ModuleSource, module: nn.Module) -> Tensor:
    """Return what a module makes of zeros; raise `NetworkError` where that are no features."""
    try:
        with torch.no_grad():
            features = module(torch.zeros(_ROWS, *body.shape))
    except Exception as error:
        raise NetworkError(
            f"inputs: {_named(body)} cannot take {(_ROWS, *body.shape)}: {_shown(error)}"
        ) from error
    rows = features.shape if isinstance(features, Tensor) else type(features).__name__
    if (
        not isinstance(features, Tensor)
        or features.dim() != 2
        or len(features) != _ROWS
        or not features.numel()
    ):
        raise NetworkError(
            f"{_named(body)} makes {rows} of inputs {(_ROWS, *body.shape)}; its output must be a "
            "row of features for each sample, (n, d): pool or flatten at its end, and leave the "
            "classifier out"
        )
    return features


def _tensors(body: ModuleSource, module: nn.Module) -> Iterator[ModuleTensor]:
    """Yield what is averaged, in the order of the module's state, shared tensors once."""
    seen: set[int] = set()
    for path, tensor in module.state_dict(keep_vars=True).items():
        if not isinstance(tensor, Tensor) or id(tensor) in seen:
            continue
        seen.add(id(tensor))
        if tensor.is_complex():
            raise NetworkError(f"{_named(body)} has complex numbers in {path!r}; give real ones")
        trained = isinstance(tensor, nn.Parameter) and tensor.requires_grad
        last, name = path.rpartition(".")[2], PREFIX + path
        if trained and last in BUFFERS:
            raise NetworkError(f"{_named(body)} has a parameter {path!r}; call it another name")
        if not trained and not (tensor.is_floating_point() and bool(tensor.isfinite().all())):
            continue
        name = name if trained or last in BUFFERS else f"{name}.{OTHER_BUFFER}"
        yield ModuleTensor(name, path, tuple(tensor.shape), trained)


def _all_names(module: nn.Module, found: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return tensors of a module by all names that they have there, shared ones by several."""
    state = module.state_dict(keep_vars=True)
    by_tensor = {id(state[path]): tensor for path, tensor in found.items()}
    return {path: by_tensor[id(held)] for path, held in state.items() if id(held) in by_tensor}


def _named(body: ModuleSource) -> str:
    options = ", ".join(f"{name}={value!r}" for name, value in body.options)
    return f"network {body.name!r}" + (f" with {options}" if options else "")


def _shown(error: Exception) -> str:
    first = str(error).strip().partition("\n")[0]
    return f"{type(error).__name__}: {first}" if first else type(error).__name__
