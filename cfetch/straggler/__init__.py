"""Decides which attempts are stragglers. Pure: no clock, no I/O, no event loop.

The engine tells a ``Policy`` which attempts start, grow and end, and asks it several times a second::

    policy.note_start(key, size, now, ...)           an attempt begins
    policy.check(now, attempts) -> Check             which to cancel, and why some slow ones are spared
    policy.note_finish / note_pause / note_cancellation / note_failure
                                                     how the attempt ended

Read in this order::

    policy.py      the port; engine/policies.py chooses which policy a run has; check.py: what it says
    base_policy.py a policy that judges nobody; guarded.py: it takes over from a policy that fails
    attempt_figures.py     one attempt: its size, its own clock
    entries.py     which entries have finished
    stall.py       no byte at all for too long: needs no baseline, works from the first file on
    min_rate.py    below the rate that the user has stated: needs no baseline either
    detector.py    policy ``cloudfetch``: elapsed > multiplier * size / median + padding
    baseline.py    the median that the formula uses; fallback.py: its mode of one entry at a time
    adaptive.py    policy ``adaptive``: the rest of an attempt against the time of a fresh one
    watched_attempts.py       the attempts that are old enough to be judged, and their limits
    suspects.py  suspicion.py      which suspects are stragglers, and which have an excuse
    second_requests.py     is a file that cannot be split asked for a second time?
    fresh_attempt.py       the time that a fresh attempt needs, learned by host
    attempt_limits.py       the limits of one attempt, derived from the time that a fresh one needs
    evidence.py    bytes over time of all attempts (numpy)
    common_cause.py  ruling.py    is the attempt to blame, or the network? slowdown.py: when that is reported
    regime.py      how each host is asked if all are slow (ways_to_ask.py)
    host_regime.py    one host, whose cause burst.py, cold_cache.py and connection_wear.py find
    flows.py       the attempts whose bytes have flowed for long enough to show a rate
    handshake.py   when the kernel repeats a handshake that has no answer
    blackout.py    nothing comes over any connection, and then the first sign of life
    own_control.py     has cancelling helped? attempts that were left alone are its control
    rescues.py     has a file been rescued often enough to be slow itself?
    feedback.py    the cost and gain of past cancellations: tightens or relaxes the limits
    width.py       how many attempts one host gets at a time; link_queue.py: whether its link is full
    segment_growth.py      how many connections may bring one file, by what TCP shows
    knowledge.py   facts about hosts for the next run; merged.py: tasks on many machines

When it fails: a wrong decision costs a connection and the bytes that cannot be kept, never a file. An attempt
is flagged at most once; an entry at most twice by the formula. Under ``adaptive`` it is flagged until the
file itself is found slow; lost bytes are a bounded share; while all are slow, only probes are flagged.

Where to change: the default policy, ``adaptive``, flags by ``terms_of`` in ``attempt_limits.py`` (the limit),
``rule`` in ``ruling.py`` (whether it is to blame) and ``_flag`` in ``adaptive.py`` (the budget).
The formula flags by ``limit_s`` in ``detector.py``, and it alone reads quantile and padding. The engine asks
in ``engine/monitor.py``, and cancels the flagged attempts. docs/stragglers.md has the figures.
"""
