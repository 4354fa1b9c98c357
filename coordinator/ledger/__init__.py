"""The append-only ledger, its blobs, and the check that nothing in it changed.

store.Ledger           the one writer: commits groups of entries
reader.LedgerReader    reads, also while another process writes
entries                what an entry is, and its one byte string
merkle                 the hash over all entries (RFC 6962)
blobs                  content-addressed bytes that entries name
mirror_notes           what mirrors tell the coordinator beside them
mirror, restore        a copy in a folder or object store, and a ledger made of it
ranges, verify         walk everything, range by range, and name the first thing that does not fit
snapshots, columns     states that the entries give, kept beside it; values of dataclasses as bytes
describe, cli          entries in words; `fleetledger ledger tail | show | verify`
"""
