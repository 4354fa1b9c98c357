"""The proxy: a party beside the coordinator that knows gradients, which the coordinator must not.

core      rules, without I/O: what to keep, to check, to score and to say
store     what the proxy remembers, on the disk before anything is acknowledged
scoring   the method's proxy side, on a thread of its own
shell     carries messages in and out; `program` puts everything together
"""
