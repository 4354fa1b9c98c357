"""The append-only ledger, its blobs, its projections, and the check that nothing in it changed.

store.Ledger           the one writer: commits groups of entries
reader.LedgerReader    reads, also while another process writes
entries                what an entry is, and its one byte string
merkle                 the hash over all entries (RFC 6962)
blobs                  content-addressed bytes that entries name
projections            tables that are a function of the entries
mirror, restore        a copy in a folder or object store, and a ledger made of it
verify                 walks everything and names the first thing that does not fit
describe, cli          entries in words; `fleetledger ledger tail | show | verify`
"""
