"""FedCOF on a device: the sum of features and the count of every class.

    finish   n_k,c and n_k,c times the class mean m_k,c

Pure functions: features come from `frozen.onnx` by way of the agent, the payload goes back to it.
"""

from fleetledger.methods.fedcof.messages import FedcofAssignment
from fleetledger.methods.statistics.class_sums import SumsDevice


class FedcofDevice(SumsDevice[FedcofAssignment]):
    """Sends the sum and the count of every class."""

    assignment_type = FedcofAssignment


DEVICE = FedcofDevice()
