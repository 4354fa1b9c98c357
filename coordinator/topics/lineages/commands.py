"""The operator's commands that begin a lineage."""

from __future__ import annotations

from typing import Literal

from fleetledger.coordinator.topics.lineages import entries
from fleetledger.runtime.strict import Strict


class ImportBackbone(Strict):
    """Begin a new lineage; the files are in the blob store already."""

    verb: Literal["import-backbone"] = "import-backbone"
    backbone: entries.BackboneImported


class ImportNetwork(Strict):
    """Begin a lineage whose network the fleet trains whole; its files are in the store already."""

    verb: Literal["import-network"] = "import-network"
    network: entries.NetworkImported


class MakeVariants(Strict):
    """Let the leading frozen model have these variants; their files are in the store already."""

    verb: Literal["make-variants"] = "make-variants"
    made: entries.VariantSet


LineageCommand = ImportBackbone | ImportNetwork | MakeVariants
