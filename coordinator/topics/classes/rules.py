"""Rules of names: which may be given, renamed and merged."""

from __future__ import annotations

from shlex import quote

from fleetledger.coordinator.core.decision import Decision, record
from fleetledger.coordinator.core.entry import OPERATOR
from fleetledger.coordinator.core.state import State
from fleetledger.coordinator.errors import CommandError, UnknownClassError
from fleetledger.coordinator.topics.classes.commands import ClassCommand, RenameClass
from fleetledger.coordinator.topics.classes.entries import ClassMerged, ClassRenamed
from fleetledger.coordinator.topics.lineages.background import check_classes
from fleetledger.coordinator.topics.lineages.capacity import check_other_name
from fleetledger.schemas.class_names import fault_of, look_alike
from fleetledger.schemas.values import ClassName


def check_new_name(name: ClassName) -> None:
    """Raise `CommandError` where a name that is new to the fleet hides something."""
    fault = fault_of(name)
    if fault:
        raise CommandError(f"class: {str(name)!a} {fault}")


def carry_out(state: State, command: ClassCommand) -> tuple[Decision, str]:
    """Return what a command decides and a sentence for the operator."""
    if isinstance(command, RenameClass):
        old, new = command.old, command.new
        text = f"class {old} is now {new}; {old} stays an alias"
        return _rename(state, old, new), text
    source, target = command.source, command.target
    return _merge(state, source, target), f"{source} now means {target}"


def _rename(state: State, old: ClassName, new: ClassName) -> Decision:
    old = _resolve(state, old)
    check_classes(state, (new,))
    check_new_name(new)
    if new in state.classes.indices:
        raise CommandError(
            f"class: {str(new)!r} exists; to make both one use "
            f"`fleetledger class merge {quote(str(old))} {quote(str(new))}`"
        )
    meant = state.classes.aliases.get(new)
    if meant is not None and _resolve(state, new) != old:
        raise CommandError(f"class: {str(new)!r} is another name of {str(meant)!r}")
    others = (name for name in state.classes.accepted_names if _resolve(state, name) != old)
    alike = look_alike(new, others)
    if alike is not None:
        raise CommandError(
            f"class: {str(new)!a} looks like {alike!a}, another class of the fleet; type it in "
            "letters of one script, or make both one with `fleetledger class merge SOURCE TARGET`"
        )
    check_other_name(state, new)
    return record(ClassRenamed(old=old, new=new), actor=OPERATOR)


def _merge(state: State, source: ClassName, target: ClassName) -> Decision:
    source, target = _resolve(state, source), _resolve(state, target)
    if source == target:
        raise CommandError(f"class: both names mean {str(target)!r} already")
    check_other_name(state, target)
    return record(ClassMerged(source=source, target=target), actor=OPERATOR)


def _resolve(state: State, name: ClassName) -> ClassName:
    try:
        return state.classes.resolve(name)
    except UnknownClassError as error:
        raise CommandError(str(error)) from error
