"""A standing attack on the real command: random worlds of raw servers, options, kills and disks, by seed.

Read ``world.py`` (what a seed draws), ``replies.py`` (what servers do wrong), ``server.py`` (who says it),
``life.py`` (one run of the command, and how it dies), ``judge.py`` (what must hold afterwards), ``battle.py``
(a world from its first run to the quiet at its end), ``shrink.py`` (the smallest world that still fails).
``python -m tests.attack`` fights seed after seed until its time is over; ``scripts/attack`` calls it.
"""
