"""FedNCM, FedCOF and Fed3R beside STSA, on the same stages, partitions and frozen networks."""
