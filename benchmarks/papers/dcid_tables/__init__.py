"""DCID, its ablations and what stands beside it: on digits and on a part of CIFAR-100."""
