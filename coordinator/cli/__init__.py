"""Verbs of the operator: thin commands that parse, call one function and print."""
