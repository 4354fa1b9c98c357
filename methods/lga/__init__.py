"""LGA: local-global anti-forgetting, and GLFC as settings of it.

Dong et al., "No One Left Behind: Real-World Federated Class-Incremental Learning", PAMI 2023.
"""
