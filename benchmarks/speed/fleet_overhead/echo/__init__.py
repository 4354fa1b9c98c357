"""Echo, a method for measuring: devices answer with the weights that they were sent, and a little.

To import it makes it known by its name, in workers, too.
"""

from fleetledger.methods.descriptor import LEARN, Descriptor
from fleetledger.methods.registry import METHODS, Method

DESCRIPTOR = Descriptor(
    name="echo",
    title="Answers without training",
    citation="none",
    payload_kinds=("weights",),
    needs={LEARN: frozenset({"numpy", "onnxruntime", "torch"})},
    trains=True,
)
METHODS.add("echo", Method(__name__), __name__)
