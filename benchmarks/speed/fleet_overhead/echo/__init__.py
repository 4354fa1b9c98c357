"""Echo, a method for measuring: devices answer with the weights that they were sent, and a little.

The measured program makes this folder a part of the package `methods`.
"""

from fleetledger.methods.descriptor import LEARN, Descriptor

DESCRIPTOR = Descriptor(
    name="echo",
    title="Answers without training",
    citation="none",
    payload_kinds=("weights",),
    needs={LEARN: frozenset({"numpy", "onnxruntime", "torch"})},
    trains=True,
)
