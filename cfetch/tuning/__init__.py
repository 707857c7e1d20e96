"""The best straggler options for runs like those recorded: past runs are replayed under other settings.

::

    the formula:  metrics file -> runs (runs.py) -> columns of attempts (history.py) -> scores (replay.py)
    adaptive:     metrics file -> runs -> progress of attempts (curves.py) -> scores (adaptive_replay.py)
    scores of all runs -> the choice, with intervals, checked on held-out runs (choice.py)
                       -> a recommendation and a --config file (recommendation.py)

Read in this order: ``history.py`` (what a record tells of an attempt that was broken off), ``replay.py``
(the detector's rule over columns), ``curves.py`` and ``adaptive_replay.py`` (the policy itself judges the
recorded progress), ``choice.py``, ``recommendation.py``, ``runs.py``. All of it computes
with numpy and is the same in this process and in Spark's tasks (``cfetch/spark/replay_job.py``);
``cfetch/app/tune.py`` decides where. The dice are seeded: equal metrics give equal answers.

When it fails: too few runs, too few finished files, or nothing slow in them is an error that says so, and
the default stays. A gain within the noise leaves it too, and a run that its own replay does not explain is
left out. A metrics file that cannot be read ends the replay and is named; nothing is written but
the file of ``--out``.
"""
