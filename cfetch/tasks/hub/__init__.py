"""The processes of one run meet here: the hub knows their present work, receipts report the finished work.

The hub lives on the driver. Each task keeps one connection to it and reports once a second; the answer
holds its leases (its part of the connections to hosts that all tasks may have), the baseline of all tasks,
and the order to stop, if there is one.

::

    task:   every second: send a beat (attempts under way, slots wanted at each host, samples of speed)
            answer: follow its leases, judge by its baseline, stop if ordered to
            no answer for 8 s: use fixed limits and the task's own files, and try again
    hub:    a beat comes: update the task, divide the hosts, answer; forget tasks silent for 10 s

Read in this order: ``messages.py`` (beats, orders, proof of the key; pure), ``leases.py`` (pure),
``learned_limits.py`` (of hosts that throttle; pure), ``registry.py`` (beats in, orders out; pure),
``server.py``, ``client.py``; ``connection.py`` is what both ends share. ``claims.py``: where tasks ask for
shares over the hub, as on Spark with several volumes. ``receipts.py`` stands by itself: files
that tasks leave and the driver reads; ``account.py`` (pure) lets each entry end once.

When it fails: nothing else depends on the hub. A run without it has the same result, a poorer view, and fixed
limits. Only receipts count: the receipt of a share is linked into place once, and is on disk before it has
its name; parts report early, and a part that a power cut has torn is ignored. No message holds a URL, header
or token.
"""
