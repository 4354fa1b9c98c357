"""What a module from outside is made of: a factory, and what it is called with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

Option = bool | int | float | str
Options = tuple[tuple[str, Option], ...]
"""Options of a factory, by name and in the order of their names: a value that has a hash."""
Factory = Callable[..., Any]
"""From the shape of one sample, and options by name, to a `torch.nn.Module`."""

PREFIX = "body."
"""What names of a module's tensors begin with, since a head's begin with `head.`."""


@dataclass(frozen=True)
class ModuleSource:
    """The module that `factory` makes; equal factories, shapes and options are equal ones."""

    name: str
    """What settings call it."""
    factory: Factory = field(repr=False)
    shape: tuple[int, ...]
    """Of one sample."""
    options: Options = ()
