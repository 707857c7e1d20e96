"""Finds the best straggler options for runs like the recorded ones: replays them under other settings.

::

    the formula:  metrics file -> runs (runs.py) -> columns of attempts (history.py) -> scores (replay.py)
    adaptive:     metrics file -> runs -> progress of attempts (curves.py) -> scores (adaptive_replay.py)
    scores of all runs -> the choice, with intervals, checked on held-out runs (choice.py)
                       -> a recommendation and a --config file (recommendation.py)

Read in this order: ``history.py`` (the facts in a record, even of an attempt broken off), ``replay.py``
(the detector's rule over columns), ``curves.py`` and ``adaptive_replay.py`` (the policy itself judges the
recorded progress), ``choice.py``, ``recommendation.py``, ``runs.py``. All of it computes
with numpy and is the same in this process and in Spark's tasks (``replay_job.py``);
``use_case.py`` decides where it runs. Random numbers are seeded: equal metrics give equal answers.

When it fails: too few runs, too few finished files, or no slow files are an error that says so, and the
default stays. The default also stays if the gain is within the noise. A run is left out if a replay with its
own settings does not reproduce it. A metrics file that cannot be read ends the replay and is named. Only the
file of ``--out`` is written.
"""
