"""Batches on several volumes: what is staged where, when it is committed, what happens when a volume fails.

``placement/`` decides, and this room carries it out. A batch is published on one volume as a whole, or
begins anew elsewhere.

    batched.py         the answers to the pool: the ``Commitment`` to batches
    arrivals.py        entries cut into batches, in the order in which they arrive
    rounds.py          the loop: batches arrive, get a volume, are begun, or are given up
    staging.py         a batch under way on one volume; stagings.py: all of them
    completion.py      the last entry of a batch has ended: publish it, or hold it back
    volume_watch.py    a volume says no, or is slow: its batches go elsewhere
    health.py          how fast volumes are, how much room they have, whether they answer
    volume_events.py   what is emitted of all this

::

    round, at every change and every half second:
        batches arrive -> the placer assigns volumes -> each free place begins a batch
        its entries are released to the schedule; the workers bring them into parts on that volume
        the last one is whole: publish all parts, write the batch's record, emit BatchCommitted
        the volume fails: drop its stagings, cancel their transfers (``moved``), the batches wait again

When it fails: a batch without a volume until ``--placement-deadline``, or begun too often in vain, is given
up, and its entries fail. A named batch of which an entry failed is not published; what came of it is kept
for a later run. A volume that hangs holds up nobody else, and a file that was published there late is
undone.

Where to change: the order of arrival is ``arrivals.py``; when a batch is begun ``rounds.py``; patience with
volumes ``health.py``; which volume, ``placement/``.
"""
