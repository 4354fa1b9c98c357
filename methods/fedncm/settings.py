"""What an operator may set for FedNCM."""

from fleetledger.methods.statistics.part_settings import StatisticsSettings


class FedncmSettings(StatisticsSettings):
    """The settings of one lineage: all devices use the same, and they never change within it.

    The method has no constant of its own.
    """
