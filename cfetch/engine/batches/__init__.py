"""Batches on several volumes: where they are staged, when they are committed, and what a failed volume means.

``engine/placement/`` decides, and this room carries its decisions out. A batch is published on one volume
as a whole, or goes to another one, which begins with copies of its parts.

    batched.py         the answers to the pool: the ``Commitment`` to batches
    arrivals.py        entries cut into batches, in the order in which they arrive
    waiting.py         the steps of a batch: it arrives, gets a volume, is begun, or is given up
    rounds.py          the loop of these steps in one process
    borne.py           how many attempts the hosts bear now, which the volumes share
    staging.py         a batch under way on one volume; stagings.py: all of them
    completion.py      the last entry of a batch has ended: publish it, or hold it back
    volume_watch.py    a volume refuses a batch, or is slow: its batches go to other volumes
    health.py          how fast volumes are, how much room they have, whether they answer
    volume_events.py   the events about batches and volumes

::

    round, at every change and every half second:
        batches arrive -> the placer assigns volumes -> each free slot begins a batch
        its entries are released to the schedule; the workers bring them into parts on that volume
        the last one is whole: publish all parts, write the batch's record, emit BatchCommitted
        the volume fails: drop its stagings, cancel their transfers (``moved``), the batches wait again
        on the next volume: copy what the old one holds of an entry, fetch the rest

When it fails: a batch that has no volume until ``--placement-deadline``, or was begun too often in vain, is
given up, and its entries fail. If an entry of a named batch fails, the batch is not published; its bytes are
kept for a later run. A volume that hangs does not delay the others, and a file that is published there too
late is removed again.

Where to change: the order of arrival is in ``arrivals.py``; when a batch is begun, in ``rounds.py``; patience
with volumes, in ``health.py``; the choice of the volume, in ``engine/placement/``.
"""
