"""FedNCM: a class's mean feature over the whole fleet, at one length, is its row of the head.

Legate et al., "Guiding The Last Layer in Federated Learning with Pre-Trained Models",
arXiv 2306.03937. The README tells which function is which step.
"""

from fleetledger.methods.descriptor import LEARN, Descriptor

DESCRIPTOR = Descriptor(
    name="fedncm",
    title="Federated nearest class means",
    citation="Legate et al., arXiv 2306.03937",
    payload_kinds=("statistics",),
    needs={LEARN: frozenset({"numpy", "onnxruntime"})},
)
