"""Runs the real engine in virtual time: only the network and the volumes are a model.

Pool, policy, placement, back-off and host limits are those of ``cfetch download``; seconds cost nothing,
and equal seeds give equal runs.

    play.py         one run: a scenario, a policy and a seed in, figures out
    compare.py      ``cfetch bench --simulate``: all scenarios, policies and seeds, on all processors
    plan.py         a scenario's files as a plan in memory
    transport.py    implements the wire's port: connections pooled or fresh
    connections.py  the connections of a host
    exchange.py     one request and its reply, at the network's pace
    link.py         bytes as a fluid: every rate computed exactly, without time steps
    volume.py       implements the volume's port: takes bytes at a steady speed, and keeps only numbers
    alarms.py       counts the false alarms of a policy

The traits of each connection come from ``plugins/lab/bench/network.py``, which the loopback origin enacts
too; so the model can be compared with real runs (``run_once`` in ``compare.py`` there).

The model leaves out name resolution and TLS (a new connection only costs one latency more), the processor's
time, and the flushes of a disk. It has slow start and loss if a scenario states them, as rates that depend on
the bytes of a connection; windows do not shrink.

When it fails: a run that is not over after a week of virtual time is stopped; entries without their file
are counted as ``failed`` in its figures.
"""
