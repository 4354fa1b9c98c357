"""Whatever comes over the network is read or refused: nothing else happens.

`parsers` names what reads such bytes, `mutations` spoils good ones. `test_parsers.py` is part of
the test run; a million inputs take some minutes:

    python -m tests.fuzzing --inputs 1000000
"""
