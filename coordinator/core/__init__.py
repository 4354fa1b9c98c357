"""The coordinator's rules without I/O: `handle` decides, the shell commits, `apply` changes state.

The fleet's model is a pure function of the entries: replaying them through `State.apply` gives
the state that the rules decide on, whatever crashed in between.
"""
