"""Actions as calls of Python: a signature from an action's fields, and values from arguments."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from inspect import Parameter, Signature
from typing import TypeVar

from pydantic import ValidationError

from fleetledger.coordinator.actions.action import Action, ActionField
from fleetledger.coordinator.core.commands import Command
from fleetledger.coordinator.errors import CommandError
from fleetledger.runtime.errors import FleetledgerError
from fleetledger.schemas.message import explain

SURE = "sure"
"""Argument of actions about which the coordinator may ask."""
Made = TypeVar("Made")


def signature_of(action: Action) -> Signature:
    """Return the parameters of an action's call, after `self`.

    What is required comes by its place, several required words one by one, the rest by name.
    """
    parameters = [Parameter("self", Parameter.POSITIONAL_OR_KEYWORD)]
    parameters += [
        Parameter(
            field.name,
            Parameter.VAR_POSITIONAL if field.several else Parameter.POSITIONAL_OR_KEYWORD,
        )
        for field in action.fields
        if field.required
    ]
    parameters += [
        Parameter(field.name, Parameter.KEYWORD_ONLY, default=False if field.flag else None)
        for field in action.fields
        if not field.required
    ]
    if action.may_ask:
        parameters.append(Parameter(SURE, Parameter.KEYWORD_ONLY, default=False))
    return Signature(parameters)


def call_of(
    action: Action, carry_out: Callable[[object, Action, Command], Made]
) -> Callable[..., Made]:
    """Return a method that makes an action's command and has `carry_out` do it."""
    signature = signature_of(action)

    def call(*arguments: object, **named: object) -> Made:
        given = dict(signature.bind(*arguments, **named).arguments)
        return carry_out(given.pop("self"), action, command_of(action, given))

    told = [action.effect, "", f"On the command line: `{action.command_line({})}`."]
    told += [f"`{field.name}`: {_told(field)}" for field in action.fields]
    if action.may_ask:
        told.append(f"`{SURE}`: it is meant so, whatever the coordinator would ask.")
    call.__doc__ = "\n".join(told)
    call.__name__ = call_name(action)
    call.__signature__ = signature  # type: ignore[attr-defined]
    return call


def call_name(action: Action) -> str:
    """Return the name of an action in Python."""
    return action.name.replace("-", "_")


def command_of(action: Action, given: Mapping[str, object]) -> Command:
    """Return the command for arguments by name; raise `CommandError` for what cannot be."""
    fields = {field.name: field for field in action.fields}
    values = {
        name: text
        for name, value in given.items()
        if (text := _text(fields.get(name), value)) is not None
    }
    missing = [name for name, field in fields.items() if field.required and not values.get(name)]
    if missing:
        raise CommandError(f"{missing[0]}: is missing; {_told(fields[missing[0]])}")
    try:
        return action.command(values)
    except CommandError:
        raise
    except ValidationError as error:
        raise CommandError(f"{call_name(action)}: {explain(error)}") from error
    except (FleetledgerError, ValueError) as error:
        raise CommandError(f"{call_name(action)}: {error}") from error


def _text(field: ActionField | None, value: object) -> str | None:
    """Return a value as a form has it; None where nothing is given."""
    if value is None or value is False:
        return None
    if value is True:
        return "yes"
    if isinstance(value, Mapping):
        value = [f"{name}={each}" for name, each in value.items()]
    if isinstance(value, Iterable) and not isinstance(value, str):
        items = [str(item) for item in value]
        # A line for each, since the name of a class may have spaces.
        several = field is not None and field.several
        return "".join(f"{item}\n" for item in items) if several else ",".join(items)
    return str(value)


def _told(field: ActionField) -> str:
    choices = f" One of {', '.join(field.choices)}." if field.choices else ""
    return f"{field.label}. {field.help}{choices}".strip()
