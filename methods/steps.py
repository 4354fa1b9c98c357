"""A method of one's own as one class: a method of ours, whose steps it changes.

    @fl.method("fedreg")
    class FedReg(fl.methods.Rounds):
        class Settings(fl.methods.Rounds.Settings):
            decorrelation: float = 0.01

        def loss(self, step):
            return super().loss(step) + self.settings.decorrelation * spread(step.features)

Each base says which steps there are and on which side they run; what is not overridden stays what
the base does, to the bit. Steps are pure: an object is made anew from the settings of a fleet,
wherever a step is needed, and equal settings make equal objects.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import Any, ClassVar, Generic, TypeVar

from pydantic import BaseModel, ValidationError, create_model
from typing_extensions import Self

from fleetledger.methods.descriptor import Descriptor
from fleetledger.methods.errors import MethodError
from fleetledger.methods.settings import SECTION
from fleetledger.runtime.setting_faults import describe_faults
from fleetledger.schemas.message import Message

AssignmentT = TypeVar("AssignmentT", bound=Message)


class MethodSteps:
    """The base of the bases; `settings` are those of a fleet, read and checked."""

    package: ClassVar[str]
    """The method of ours, whose sides take the steps."""
    Settings: ClassVar[type[BaseModel]]
    """What an operator may set, `[method.settings]` of a scenario; a subclass may add fields."""
    title: ClassVar[str] = ""
    """What the method is, in a few words; left out, the first line of its docstring."""
    citation: ClassVar[str] = ""
    """Where it was published."""
    name: ClassVar[str] = ""
    """By which it was registered; left out, that of the class in small letters."""

    settings: Any

    def __init__(self, **settings: object) -> None:
        """Take settings by name; raise `MethodError` naming the one that is wrong."""
        try:
            self.settings = self.Settings.model_validate(settings)
        except ValidationError as error:
            raise MethodError(describe_faults(error, self.Settings, SECTION)) from error
        self._given = settings

    @classmethod
    def of(cls, settings: object) -> Self:
        """Return the steps of settings that were read."""
        made = cls.__new__(cls)
        made.settings = settings
        return made

    @classmethod
    def changes(cls, step: str) -> bool:
        """Whether a subclass has a step of its own under this name."""
        ours = next(base for base in cls.__mro__ if base.__module__.startswith(_OURS))
        return getattr(cls, step) is not getattr(ours, step)

    @classmethod
    def described(cls, base: Descriptor, name: str) -> Descriptor:
        """Return what the method of ours says of itself, by the name and in the words of this."""
        words = (cls.__doc__ or cls.__name__).strip().partition("\n")[0].rstrip(".")
        cited = cls.citation or f"after {base.title} ({base.citation})"
        return replace(base, name=name, title=cls.title or words, citation=cited)

    def as_section(self) -> dict[str, object]:
        """Return the section `[method]` of a scenario that asks for it, with these settings."""
        return {"name": type(self).registered_name(), "settings": dict(self._given)}

    @classmethod
    def registered_name(cls) -> str:
        """Return the name by which fleets ask for it."""
        return cls.__dict__.get("name") or cls.__name__.lower()

    @cached_property
    def _words(self) -> str:
        return str(self.settings.model_dump_json())

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and other._words == self._words

    def __hash__(self) -> int:
        return hash((type(self), self._words))


_OURS = "fleetledger."


def assignment_of(
    base: type[AssignmentT], steps: type[MethodSteps], name: str
) -> type[AssignmentT]:
    """Return the assignment of the base with the settings of the steps."""
    made = create_model(
        f"{steps.__name__}Assignment",
        __base__=base,
        __module__=base.__module__,
        settings=(steps.Settings, ...),
    )
    made.kind = f"{name}-assignment"
    made.steps_type = steps  # type: ignore[attr-defined]
    return made


class TakesSteps(Generic[AssignmentT]):
    """A side of a method, which finds in its assignment the steps of one's own."""

    assignment_type: type[AssignmentT]

    def with_steps(self, steps: type[MethodSteps], name: str) -> Self:
        """Return the side of a method that changes steps of this one."""
        made = type(self)()
        made.assignment_type = assignment_of(self.assignment_type, steps, name)
        return made
