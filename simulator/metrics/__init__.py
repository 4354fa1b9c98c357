"""Numbers out of what a run left behind: stage records, the model's answers, the plan's counts.

Everything here is a pure function over arrays and records; `measurement` puts them together for one
seed, `results` for a run.
"""
