"""The best straggler options for runs like those recorded: past runs are replayed under other settings.

::

    metrics file -> runs (runs.py) -> columns of attempts (history.py) -> scores by setting (replay.py)
    scores of all runs -> the choice, with intervals, checked on held-out runs (choice.py)
                       -> a recommendation and a --config file (recommendation.py)

Read in this order: ``history.py`` (what a record tells of an attempt that was broken off), ``replay.py``
(the detector's rule over columns), ``choice.py``, ``recommendation.py``, ``runs.py``. All of it computes
with numpy and is the same in this process and in Spark's tasks (``cfetch/spark/replay_job.py``);
``cfetch/app/tune.py`` decides where. The dice are seeded: equal metrics give equal answers.

When it fails: too few runs, too few finished files, or nothing slow in them is an error that says so, and
the default stays. A metrics file that cannot be read ends the replay and is named; nothing is written but
the file of ``--out``.
"""
