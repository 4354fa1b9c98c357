"""Past models made again from the ledger and its blobs alone, and held against what it recorded.

recipes      entries into the requests that the makers were given then
keeping      a blob store that keeps in memory what is made, so that nothing is written
judging      what was set aside, judged again
round_inspection  answers to rounds beside each other, and rounds made without a device
comparing    what was made against what was recorded: digests, else the distance
remaking     one recipe after the other, and what came of each
"""
