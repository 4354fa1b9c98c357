"""Pooled head: devices publish frozen features, the coordinator trains one classifier on all.

Beitollahi et al., "Parametric Feature Transfer: One-shot Federated Learning with Foundation
Models", arXiv 2402.01862, compares both forms that are here. The README says what leaves a device.
"""

from fleetledger.methods.descriptor import LEARN, Descriptor

DESCRIPTOR = Descriptor(
    name="pooled",
    title="Pooled head",
    citation="Beitollahi et al., arXiv 2402.01862",
    payload_kinds=("features",),
    needs={LEARN: frozenset({"numpy", "onnxruntime"})},
)
