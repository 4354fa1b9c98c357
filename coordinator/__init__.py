"""The program that leads: ledger, stages, class registry, models, operator commands."""
