"""Rules of a new lineage, which has to fit the names that there are, and of its variants."""

from __future__ import annotations

from fleetledger.coordinator.core.decision import Decision, record
from fleetledger.coordinator.core.entry import OPERATOR
from fleetledger.coordinator.core.state import State
from fleetledger.coordinator.errors import CommandError
from fleetledger.coordinator.topics.lineages import commands
from fleetledger.coordinator.topics.lineages.background import check_network
from fleetledger.coordinator.topics.lineages.capacity import check_lineage
from fleetledger.coordinator.topics.lineages.entries import Lineage, VariantSet, VariantsMade
from fleetledger.methods.requirements import unable

_RESTART = "start the coordinator again"


def carry_out(state: State, command: commands.LineageCommand) -> tuple[Decision, str]:
    """Return what a command decides and a sentence for the operator."""
    if isinstance(command, commands.ImportBackbone):
        expect_here(command.backbone)
        backbone = command.backbone
        check_lineage(state, backbone)
        text = f"frozen model {backbone.frozen.digest.short} leads; heads begin anew"
        return record(backbone, actor=OPERATOR), text
    if isinstance(command, commands.MakeVariants):
        return _make_variants(state, command.made)
    network = command.network
    expect_here(network)
    check_lineage(state, network)
    check_network(state, network)
    text = f"network {network.digest.short} leads; it begins with its first weights"
    return record(network, actor=OPERATOR), text


def _make_variants(state: State, made: VariantSet) -> tuple[Decision, str]:
    backbone = state.lineages.backbone
    if backbone is None or backbone.frozen.digest != made.lineage:
        raise CommandError(
            f"variants: frozen model {made.lineage.short} does not lead; make them of the one that "
            "does"
        )
    entry = record(VariantsMade(**dict(made)), actor=OPERATOR)
    if not made.variants:
        text = "the next model has no variants; devices go over to the reference with it"
        return entry, text
    names = " and ".join(item.name for item in made.variants)
    text = (
        f"models of frozen model {made.lineage.short} have the variants {names} from the next one "
        "on, where it does not lose too much; devices take one by [model] variant in agent.toml"
    )
    return entry, text


def expect_here(lineage: Lineage) -> None:
    """Raise `CommandError` where the coordinator cannot lead a lineage."""
    if lacked := lacks(lineage):
        raise CommandError(lacked)


def lacks(lineage: Lineage) -> str:
    """Return what is to be installed at the coordinator for a lineage; empty where all is."""
    then = lineage.successor
    return unable(lineage.method, lineage.requires, _RESTART) or (
        "" if then is None else unable(then.method, then.requires, _RESTART)
    )


def end_adapting(state: State) -> Decision:
    """Let the frozen model lead again on top of which an adapter leads; nothing if none does.

    What devices gave for it counts as before, and so do its variants and its temperature.
    """
    beneath = state.lineages.beneath
    return Decision() if beneath is None else record(beneath)
