"""STSA: spatial-temporal statistics aggregation, one ridge head from exact sums.

Guan et al., "Enhancing Federated Class-Incremental Learning via Spatial-Temporal Statistics
Aggregation", arXiv 2506.01327. The README tells which function is which equation.
"""

from fleetledger.methods.descriptor import LEARN, Descriptor

DESCRIPTOR = Descriptor(
    name="stsa",
    title="Spatial-temporal statistics aggregation",
    citation="Guan et al., arXiv 2506.01327",
    payload_kinds=("statistics",),
    needs={LEARN: frozenset({"numpy", "onnxruntime"})},
)
