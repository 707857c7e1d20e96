"""Chooses the volume that a batch goes to. Pure: times and sizes go in, places come out.

A batch is never divided and is committed as a whole on one volume. It goes to the least loaded volume, by
``--placement``, and is counted there at once, so that the next choice sees it (Querator's ADR 19).

Read in this order::

    batches.py    cuts entries into batches: the manifest's own, or by a fraction of the bytes
    chooser.py    one choice: a cost for each volume, or the reason why it is no candidate
    books.py     the books: each batch, each volume's load, which volume may take which batch
    deadlines.py  when a batch without a volume is given up
    placer.py     all batches of a run over time: waiting, queued, started; one breaker for each volume
    relocation.py    which committed batch moves, when volumes are emptied or made level
    foresight.py  will all batches of a plan find room, before it begins
    volume_slots.py     how many downloads write to each volume at a time

``engine/batches/`` drives it in rounds::

    loop:
        report what happened               a batch arrived, was written, failed; a volume's room and speed
        assign()                           a volume for each waiting batch that may have one
        begin() for each free slot         a queued batch starts; an idle volume may steal a queued one
        overdue()                          batches that had no place until their deadline
        sleep until next_s

When it fails: one failure opens a volume's breaker, its batches go to other volumes, and after a pause one
small batch is tried there. A volume's load is always the sum of its unfinished batches, since every batch
that leaves it is subtracted again. A batch without a place until ``--placement-deadline`` is given up with
each volume's reason. While no volume can store anything, that time runs for all batches together.

Where to change: the comparison of volumes is ``choose`` in ``chooser.py``; the size of a batch is ``cut`` in
``batches.py``; the failures after which a volume is not used are in ``placer.py`` and ``base/breaker.py``.
"""
