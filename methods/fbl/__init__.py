"""FBL: forgetting-balanced learning, for pictures whose pixels have classes.

Dong et al., "Federated Incremental Semantic Segmentation", CVPR 2023.
"""

from fleetledger.methods.descriptor import LEARN, Descriptor

DESCRIPTOR = Descriptor(
    name="fbl",
    title="Forgetting-balanced learning",
    citation='Dong et al., "Federated Incremental Semantic Segmentation", CVPR 2023',
    payload_kinds=("weights",),
    needs={LEARN: frozenset({"numpy", "onnxruntime", "torch"})},
    trains=True,
    averages=True,
    of_pictures=True,
    observes=True,
    segments=True,
    disjoint=True,
)
