"""The proxy: a party beside the coordinator that knows gradients, which the coordinator must not.

core      rules, without I/O: what to keep, check, score and say; `decision` has their types
store     what the proxy remembers, on the disk before anything is acknowledged
scoring   the method's proxy side, on a thread of its own
shell     the program: carries messages in and out; `program` gives it connections and a process
"""
