"""How sites see pictures. Apart from `making`, which loads without torch."""

from fleetledger.learning.networks.pictures import Pictures
from tests.methods.dcid.making import DEVIATION, MEAN

PICTURES = Pictures(MEAN, DEVIATION)
