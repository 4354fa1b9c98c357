"""The operator's commands about names of classes."""

from __future__ import annotations

from typing import Literal

from fleetledger.runtime.strict import Strict
from fleetledger.schemas.values import ClassName


class RenameClass(Strict):
    """Give a class another name."""

    verb: Literal["rename-class"] = "rename-class"
    old: ClassName
    new: ClassName


class MergeClasses(Strict):
    """Make one class an alias of another."""

    verb: Literal["merge-classes"] = "merge-classes"
    source: ClassName
    target: ClassName


ClassCommand = RenameClass | MergeClasses
