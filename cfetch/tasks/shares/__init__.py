"""A plan brought by many tasks, on Spark or in processes of this machine: the code that both use.

A *share* is the part of a plan that one task brings. A task runs the pool of a run in one process over its
share, and leaves a *receipt*. The driver adds up the sums in it, looks at failures, and copies the lines
about files to the metrics. So dashboard, metrics, summary and exit codes are those of a run in one process.
Nothing here knows PySpark.

::

    driver   cut the plan into shares by expected seconds        cut.py, plan_cut.py
             let a task bring each share                         its port ``TaskRunner``
             until all are over: read new receipts, emit         driver.py, live_view.py
             their events, show the hub's view, sweep orphans    orphans.py
             commit the plan if every entry is in place
    both     what a task is told and what it answers             work.py
    both     who has which unit, how it is committed once        protocol.py, dealing.py
    driver   several volumes: place batches, follow volumes      placed_shares.py, placed_batches.py,
                                                                 task_volumes.py, placed_run.py
             lend shares to tasks that nobody reaps              lending.py
             keep what a dead task has left                      salvage.py
    task     open the destination, a directory or a store        task_destination.py
             bring the share, report, leave its receipt          task.py

Read in this order: ``cut.py`` (pure: how a plan is cut), ``plan_cut.py``, ``cfetch/tasks/hub/receipts.py``,
``cfetch/tasks/hub/account.py``, ``protocol.py`` (pure: the state table; ``docs/protocol.md``),
``dealing.py``, ``placed_shares.py``, ``placed_batches.py``,
``task_volumes.py``, ``placed_run.py``, ``lending.py``, ``work.py``, ``task.py``, ``driver.py``.

When it fails: a file is published by one rename, and a share is over when its receipt is linked into place,
so only shares without a receipt are brought again. A task that dies begins again and skips the files that
are in place; if a task has two copies, the first receipt counts. A run that was taken for dead can publish
nothing: its directory is gone (``cfetch/timeline/``).

Where to change: a task commits its work in ``Reporter.leave_last`` in ``task.py``, by ``leave_receipt`` in
``cfetch/tasks/hub/receipts.py``.
"""
