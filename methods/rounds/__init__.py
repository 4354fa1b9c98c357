"""Rounds: whole networks learn federally; the usual baselines are presets of one local training.

McMahan et al., "Communication-Efficient Learning of Deep Networks from Decentralized Data",
AISTATS 2017, and the methods that README.md lists.
"""

from fleetledger.methods.descriptor import LEARN, Descriptor

DESCRIPTOR = Descriptor(
    name="rounds",
    title="Federated averaging and its relatives",
    citation="McMahan et al., AISTATS 2017",
    payload_kinds=("weights",),
    needs={LEARN: frozenset({"numpy", "onnxruntime", "torch"})},
    trains=True,
    averages=True,
    asynchronous=True,
)
