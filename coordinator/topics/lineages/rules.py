"""Rules of a new lineage: it has to fit the names that there are."""

from __future__ import annotations

from coordinator.core.decision import Decision, record
from coordinator.core.entry import OPERATOR
from coordinator.core.state import State
from coordinator.topics.lineages.background import check_network
from coordinator.topics.lineages.capacity import check_lineage
from coordinator.topics.lineages.commands import ImportBackbone, LineageCommand


def carry_out(state: State, command: LineageCommand) -> tuple[Decision, str]:
    """Return what a command decides and a sentence for the operator."""
    if isinstance(command, ImportBackbone):
        backbone = command.backbone
        check_lineage(state, backbone)
        text = f"frozen model {backbone.frozen.digest.short} leads; heads begin anew"
        return record(backbone, actor=OPERATOR), text
    network = command.network
    check_lineage(state, network)
    check_network(state, network)
    text = f"network {network.digest.short} leads; it begins with its first weights"
    return record(network, actor=OPERATOR), text
