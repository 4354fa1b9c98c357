"""DCID: sites learn classes with the incremental learner of their choice, and distil together.

Zhang et al., "Deep Class Incremental Learning from Decentralized Data", TNNLS 2022.
"""

from fleetledger.methods.descriptor import LEARN, Descriptor

DESCRIPTOR = Descriptor(
    name="dcid",
    title="Decentralized composite incremental distillation",
    citation='Zhang et al., "Deep Class Incremental Learning from Decentralized Data", TNNLS 2022',
    payload_kinds=("weights", "logits", "images"),
    needs={LEARN: frozenset({"numpy", "onnxruntime", "torch"})},
    kinds_of_phases={"share": "images", "train": "logits"},
    trains=True,
    of_pictures=True,
    disjoint=True,
)
