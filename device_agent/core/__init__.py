"""The agent's rules without I/O: inputs go in; changes to commit and requests come out.

    decide(state, event, now) -> changes, requests      (session.py lists the rules)
    apply(state, change)                                (apply.py; nothing else changes the state)

The shell commits the changes of one decision in one transaction, applies them, and only then
carries out the requests.
"""
