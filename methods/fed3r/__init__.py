"""Fed3R: one ridge regression on the backbone's own features, with class vectors of one length.

Fanì et al., "Accelerating Heterogeneous Federated Learning with Closed-form Classifiers",
arXiv 2406.01116. The README tells which function is which equation.
"""

from fleetledger.methods.descriptor import LEARN, Descriptor

DESCRIPTOR = Descriptor(
    name="fed3r",
    title="Federated recursive ridge regression",
    citation="Fanì et al., arXiv 2406.01116",
    payload_kinds=("statistics",),
    needs={LEARN: frozenset({"numpy", "onnxruntime"})},
)
