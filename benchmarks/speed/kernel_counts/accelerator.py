"""A fake accelerator: tensors that say they lie on another device, computed on this processor.

    with FakeAccelerator() as fake:
        train_alone(work, TrainingEngineSettings(device=DEVICE))
    fake.seen.kernels, fake.seen.to_device, fake.seen.waits, fake.seen.host_convolutions

Each such tensor wraps one of the processor's, so that every value is real: results can be compared,
and code that looks at a value goes the way that it would go on a GPU. Below autograd, every call of
torch's passes by here and is counted as what it would be there:

    kernel      anything that computes on the device; views and empty tensors are none
    to_device   a copy from the host's memory, whose bytes are counted, too; one from the device's
                into it is `to_host`
    wait        the host needs a value before it can go on: `.item()`, `.tolist()`, `if tensor`, a
                mask as an index, `nonzero`, `bincount` and what else has a shape by its values.
                `to_host` waits, too
    host        anything that computes on the processor

Tensors of both devices in one call are refused, as on a GPU: `MixedDevicesError`. A number in a
tensor without an axis may be on the processor, as there. A fused call counts once; a GPU may launch
several kernels for it (`_foreach_*` of many tensors, the backward pass of a convolution). It says
nothing about seconds.

torch's device `meta` lends the name: it has no memory, needs no library, and nothing of the project
uses it.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, ClassVar
from unittest.mock import patch

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

from fleetledger.learning.networks.pictures import normaliser

DEVICE = "meta"
"""The name of the fake accelerator, as torch and the engine's settings have it."""

_ROOT = Path(__file__).resolve().parents[3]
_PROJECT = ("learning", "methods", "device_agent", "simulator")

_NO_KERNEL = frozenset(
    [
        "_unsafe_view",
        "alias",
        "as_strided",
        "detach",
        "diagonal",
        "empty",
        "empty_like",
        "empty_strided",
        "expand",
        "lift_fresh",
        "new_empty",
        "new_empty_strided",
        "permute",
        "select",
        "slice",
        "split",
        "split_with_sizes",
        "squeeze",
        "t",
        "transpose",
        "unbind",
        "unfold",
        "unsqueeze",
        "view",
        "_reshape_alias",
    ]
)
"""Views, and memory that nobody has written."""
_WAITS = frozenset(
    [
        "_local_scalar_dense",
        "_unique2",
        "allclose",
        "bincount",
        "equal",
        "is_nonzero",
        "masked_select",
        "nonzero",
        "unique_consecutive",
        "unique_dim",
    ]
)
_CONVOLUTIONS = frozenset(
    ("convolution", "convolution_backward", "_convolution", "mkldnn_convolution")
)


class MixedDevicesError(RuntimeError):
    """A call got tensors of the processor and of the accelerator."""


class DeviceTensor(Tensor):
    """A tensor on the fake accelerator; `held` is where its numbers are."""

    held: Tensor
    __torch_function__ = torch._C._disabled_torch_function_impl

    @staticmethod
    def __new__(cls: type[DeviceTensor], held: Tensor) -> DeviceTensor:
        """Return a tensor of the shape, strides and type of `held`."""
        made = Tensor._make_wrapper_subclass(
            cls,
            held.size(),
            strides=held.stride(),
            storage_offset=held.storage_offset(),
            dtype=held.dtype,
            layout=held.layout,
            device=torch.device(DEVICE),
            requires_grad=False,
        )
        made.held = held
        assert isinstance(made, DeviceTensor)
        return made

    def __repr__(self, *, tensor_contents: object = None) -> str:
        """Say where it is."""
        return f"DeviceTensor({self.held!r})"

    @classmethod
    def __torch_dispatch__(
        cls,
        func: Any,  # noqa: ANN401 - torch's
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:  # noqa: ANN401 - whatever the call gives
        """Refuse: without the accelerator switched on nothing counts."""
        raise RuntimeError(f"{func}: outside `with FakeAccelerator()`")


class _MadeOnTheHost(TorchFunctionMode):
    """Numbers given to `torch.tensor` become a tensor on the host, which is then copied."""

    def __torch_function__(
        self,
        func: Any,  # noqa: ANN401 - torch's
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:  # noqa: ANN401 - whatever the call gives
        """Carry a call out."""
        given = dict(kwargs or {})
        if func is Tensor.new_tensor:
            like, *args = args
            return self._copied(args, {"dtype": like.dtype, "device": like.device, **given})
        if func is Tensor.tolist and isinstance(args[0], DeviceTensor):
            return args[0].cpu().tolist()
        if func is Tensor.numpy and isinstance(args[0], DeviceTensor):
            raise MixedDevicesError(f"numpy: of a tensor on the device; at {_line()}")
        if func in (torch.tensor, torch.as_tensor) and given.get("device") is not None:
            return self._copied(args, given)
        return func(*args, **given)

    def _copied(self, args: Sequence[Any], given: dict[str, Any]) -> Tensor:
        device = given.pop("device")
        return torch.tensor(*args, **given).to(device)


@dataclass(eq=False)
class Seen:
    """What an accelerator has seen, by the name of the call, or by the function it was for."""

    kernels: Counter[str] = field(default_factory=Counter)
    to_device: Counter[str] = field(default_factory=Counter)
    to_host: Counter[str] = field(default_factory=Counter)
    waits: Counter[str] = field(default_factory=Counter)
    host: Counter[str] = field(default_factory=Counter)
    host_convolutions: Counter[str] = field(default_factory=Counter)
    bytes_to_device: Counter[str] = field(default_factory=Counter)

    def totals(self) -> dict[str, int]:
        """Return the number of each kind; bytes depend on the samples, and are none."""
        counts = {name: sum(counted.values()) for name, counted in vars(self).items()}
        del counts["bytes_to_device"]
        return counts


class FakeAccelerator(TorchDispatchMode):
    """Computes for `DeviceTensor`s on the processor, and counts what a GPU would have to do."""

    switched_on: ClassVar[list[FakeAccelerator]] = []
    """Those in use, the innermost last."""

    def __init__(self) -> None:
        super().__init__()
        self.seen = Seen()
        self._with_it = ExitStack()

    def __enter__(self) -> FakeAccelerator:
        """Switch it on."""
        self._with_it.enter_context(patch.object(torch, "autocast", _precision))
        self._with_it.enter_context(_MadeOnTheHost())
        normaliser.cache_clear()  # what a former one had on its device counts here, too
        super().__enter__()
        self.switched_on.append(self)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Switch it off."""
        self.switched_on.remove(self)
        super().__exit__(kind, error, trace)
        self._with_it.close()

    def __torch_dispatch__(
        self,
        func: Any,  # noqa: ANN401 - torch's
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:  # noqa: ANN401 - whatever the call gives
        """Carry a call out and count it."""
        given = dict(kwargs or {})
        name = func._schema.name.partition("::")[2]
        tensors = [leaf for leaf in tree_leaves((args, given)) if isinstance(leaf, Tensor)]
        here = [tensor for tensor in tensors if isinstance(tensor, DeviceTensor)]
        asked = given.get("device")
        if name in ("_to_copy", "copy_"):
            return self._copied(func, name, args, given)
        there = bool(here) if asked is None else torch.device(asked).type == DEVICE
        if not there and not here:
            self._count_host(name)
            return func(*args, **given)
        if here:
            self._check(name, args, tensors)
        if asked is not None and there:
            given["device"] = torch.device("cpu")
        made = func(*tree_map(_held, args), **tree_map(_held, given))
        self._count(name, args)
        return _returned(made, tensors)

    def _copied(self, func: Any, name: str, args: Sequence[Any], given: dict[str, Any]) -> Any:  # noqa: ANN401
        """Carry out a copy, which may go from one device to the other."""
        if name == "copy_":
            source, target = args[1], args[0]
            onto = isinstance(target, DeviceTensor)
        else:
            source, target, asked = args[0], None, given.get("device")
            onto = isinstance(source, DeviceTensor)
            if asked is not None:
                onto = torch.device(asked).type == DEVICE
                given["device"] = torch.device("cpu")
        made = func(*tree_map(_held, args), **given)
        came = isinstance(source, DeviceTensor)
        if came != onto:
            (self.seen.to_device if onto else self.seen.to_host)[_line()] += 1
            if onto:
                self.seen.bytes_to_device[_line()] += source.nbytes
            else:
                self.seen.waits[_line()] += 1
        elif onto:
            self.seen.kernels[name] += 1
        else:
            self._count_host(name)
        if target is not None:
            return target
        return DeviceTensor(made) if onto else made

    def _check(self, name: str, args: Sequence[Any], tensors: Sequence[Tensor]) -> None:
        """Refuse tensors of both devices; an index on the host is a copy, as torch allows it."""
        foreign = [one for one in tensors if not isinstance(one, DeviceTensor) and one.dim()]
        if not foreign:
            return
        if name.startswith(("index", "_index")) and isinstance(args[0], DeviceTensor):
            indices = {id(one) for one in tree_leaves(args[1])}
            if all(id(one) in indices for one in foreign):
                self.seen.to_device[_line()] += len(foreign)
                return
        shapes = [tuple(one.shape) for one in foreign]
        raise MixedDevicesError(f"{name}: {shapes} on the processor, others are not; at {_line()}")

    def _count(self, name: str, args: Sequence[Any]) -> None:
        if name in _WAITS or (name.startswith(("index", "_index")) and _by_mask(args)):
            self.seen.waits[_line()] += 1
        if name not in _NO_KERNEL and name != "_local_scalar_dense":
            self.seen.kernels[name] += 1

    def _count_host(self, name: str) -> None:
        if name in _CONVOLUTIONS:
            self.seen.host_convolutions[_caller()] += 1
        if name not in _NO_KERNEL:
            self.seen.host[name] += 1


class CountedGraphs:
    """Graphs of a fake accelerator: a replay is one kernel, whatever has been captured.

    What would stop a capture on a GPU is refused: a wait for a value, or a copy from or to the
    host.
    """

    def capture(self, call: Callable[[], Tensor]) -> tuple[Callable[[], None], Tensor]:
        """Return the replay of a call, and the memory into which its result goes."""
        result = call().clone()

        def again() -> None:
            fake = FakeAccelerator.switched_on[-1]
            outside, fake.seen = fake.seen, Seen()
            result.copy_(call())
            within, fake.seen = fake.seen, outside
            stops = within.waits + within.to_device + within.to_host
            if stops:
                raise RuntimeError(f"capture: {dict(stops)} within, which no graph can do")
            fake.seen.kernels["graph"] += 1

        return again, result


def counted(run: Callable[[], object]) -> Seen:
    """Return what a fake accelerator sees of a call."""
    with FakeAccelerator() as fake:
        run()
    return fake.seen


def _precision(
    device_type: str, dtype: torch.dtype | None = None, enabled: bool = True
) -> AbstractContextManager[None]:
    """Return a block in float32, since torch knows no other on a device that is none of its own."""
    if enabled:
        raise ValueError(
            f"autocast: {dtype} on {device_type}; the fake accelerator has float32 alone"
        )
    return nullcontext()


def _held(leaf: Any) -> Any:  # noqa: ANN401 - any argument
    return leaf.held if isinstance(leaf, DeviceTensor) else leaf


def _returned(made: Any, tensors: Sequence[Tensor]) -> Any:  # noqa: ANN401 - as the call
    """Return the results on the device; what was changed in place is the tensor that it was."""
    known = {id(tensor.held): tensor for tensor in tensors if isinstance(tensor, DeviceTensor)}

    def on_device(leaf: Any) -> Any:  # noqa: ANN401 - any result
        if not isinstance(leaf, Tensor):
            return leaf
        return known[id(leaf)] if id(leaf) in known else DeviceTensor(leaf)

    return tree_map(on_device, made)


def _by_mask(args: Sequence[Any]) -> bool:
    return len(args) > 1 and any(
        isinstance(one, Tensor) and one.dtype in (torch.bool, torch.uint8)
        for one in tree_leaves(args[1])
    )


@cache
def _in_the_project(name: str) -> str:
    """Return the path of a file from the root of the checkout, through no link; else nothing."""
    path = Path(name).resolve()
    return path.relative_to(_ROOT).as_posix() if path.is_relative_to(_ROOT) else ""


def _line(folders: Sequence[str] = _PROJECT) -> str:
    """Return the innermost function of some folders that is being carried out."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        path = _in_the_project(frame.f_code.co_filename)
        if path.partition("/")[0] in folders:
            return f"{path}:{frame.f_code.co_name}"
        frame = frame.f_back
    return "elsewhere"


def _caller() -> str:
    """Return the function of a method, or of an engine, that asked for this computation."""
    found = _line(("methods", "device_agent", "simulator"))
    return _line() if found == "elsewhere" else found
