"""The processes of one run meet here: at the hub for what they do now, by receipts for what is done.

The hub lives on the driver. Each task keeps one connection to it and reports once a second; the answer
holds its leases (connections to hosts, of those that all tasks may have), the baseline of all tasks, and
the stop.

::

    task:   every second: send a beat (what is under way, what it wants of each host, samples of speed)
            answer: go by its leases, judge by its baseline, stop if ordered to
            no answer for 8 s: go by fixed limits and the task's own files, and try again
    hub:    a beat comes: update the task, divide the hosts, answer; forget tasks silent for 10 s

Read in this order: ``messages.py`` (beats, orders, proof of the key; pure), ``leases.py`` (pure),
``registry.py`` (beats in, orders out; pure), ``server.py``, ``client.py``; ``framing.py`` is what both ends
share. ``receipts.py`` stands by itself: files that tasks leave and the driver reads.

When it fails: nothing depends on the hub. A run without it has the same result, a poorer view, and fixed
limits. Receipts are what counts: the receipt of a share is linked into place once, on disk before its name;
parts report early, and are passed over where a power cut has torn them. No message holds a URL, header or
token.
"""
