"""LGA: local-global anti-forgetting, and GLFC as settings of it.

Dong et al., "No One Left Behind: Real-World Federated Class-Incremental Learning", PAMI 2023.
"""

from fleetledger.methods.descriptor import LEARN, Descriptor

DESCRIPTOR = Descriptor(
    name="lga",
    title="Local-global anti-forgetting",
    citation='Dong et al., "No One Left Behind", PAMI 2023',
    payload_kinds=("weights", "gradients"),
    needs={LEARN: frozenset({"numpy", "onnxruntime", "torch"})},
    trains=True,
    averages=True,
    of_pictures=True,
    observes=True,
    proxy=True,
)
