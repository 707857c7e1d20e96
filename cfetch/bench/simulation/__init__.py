"""A run of the real engine in virtual time: only the network and the volumes are a model.

Pool, policy, placement, back-off and host limits are those of ``cfetch download``; seconds cost nothing,
and equal seeds give equal runs.

    play.py         one run: a scenario, a policy and a seed in, figures out
    compare.py      ``cfetch bench --simulate``: all scenarios, policies and seeds, on all processors
    plan.py         a scenario's files as a plan in memory
    transport.py    keeps the wire's port: connections pooled or fresh
    connections.py  what they are like, and how many of them a host serves
    exchange.py     one request and its reply, as the network lets it come
    link.py         bytes as a fluid: every rate computed exactly, without time steps
    volume.py       keeps the volume's port: takes bytes at a steady speed, and keeps only numbers
    alarms.py       counts the false alarms of a policy
    oracle.py       the client that knows all connections, and has no limits but the network's
    curl.py         a model of curl with a speed limit that was set by hand

What each connection is like comes from ``bench/network.py``, which the loopback origin enacts too; so the
model can be held against real runs (``bench/compare.py``: ``run_once``).

What the model leaves out: name resolution and TLS (a new connection costs one latency more, and that is
all), the processor's time, and the flushes of a disk. Slow start and loss are there where a scenario asks for
them, as rates that depend on the bytes of a connection; windows do not shrink.

When it fails: a run that is not over after a week of virtual time is stopped; entries without their file
are counted as ``failed`` in its figures.
"""
