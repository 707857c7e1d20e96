"""A run of the real engine in virtual time: only the network and the volumes are a model.

Pool, policy, placement, back-off and host limits are those of ``cfetch download``; seconds cost nothing, and
equal seeds give equal runs. What the model leaves out: slow start and loss of TCP, name resolution and TLS
(a new connection costs one latency more, and that is all), the processor's time, and the flushes of a disk.
"""
