"""FedCOF: ridge regression with class covariances that the coordinator estimates from class means.

Goswami et al., "Covariances for Free: Exploiting Mean Distributions for Training-free Federated
Learning", arXiv 2412.14326. The README tells which function is which equation.
"""

from fleetledger.methods.descriptor import LEARN, Descriptor

DESCRIPTOR = Descriptor(
    name="fedcof",
    title="Covariances for free",
    citation="Goswami et al., arXiv 2412.14326",
    payload_kinds=("statistics",),
    needs={LEARN: frozenset({"numpy", "onnxruntime"})},
)
