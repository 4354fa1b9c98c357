"""FedNCM on a device: the sum of features and the count of every class.

    finish   S_k,c = sum of h over the device's samples of class c, and n_k,c

Pure functions: features come from `frozen.onnx` by way of the agent, the payload goes back to it.
"""

from fleetledger.methods.fedncm.messages import FedncmAssignment
from fleetledger.methods.statistics.class_sums import SumsDevice


class FedncmDevice(SumsDevice[FedncmAssignment]):
    """Sends the sum and the count of every class."""

    assignment_type = FedncmAssignment


DEVICE = FedncmDevice()
