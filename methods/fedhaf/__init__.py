"""FedHAF: a small adapter and a head learn in two stages on the features of a frozen backbone.

"Federated Hierarchical Anti-Forgetting Framework for Class-Incremental Learning with Large
Pre-Trained Models", anonymous submission. The README tells which function is which equation.
"""

from fleetledger.methods.descriptor import LEARN, Descriptor

DESCRIPTOR = Descriptor(
    name="fedhaf",
    title="Federated hierarchical anti-forgetting",
    citation="Federated Hierarchical Anti-Forgetting Framework, anonymous submission",
    payload_kinds=("adapter",),
    needs={LEARN: frozenset({"numpy", "onnxruntime", "torch"})},
    trains=True,
    averages=True,
    on_features=True,
)
