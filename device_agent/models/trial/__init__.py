"""Trying a new model in a process of its own, before the agent itself loads it.

A file can keep to every rule and still crash the runtime that reads it, compute for ever, or ask
for all memory there is. What happens in the child ends with the child; the agent learns of it in
words.
"""
