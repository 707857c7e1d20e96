"""The same download by several processes of this machine: one plan, a loop on each of a few cores.

A plan is cut into the shares of ``cfetch/shares/``, as on Spark; each is brought by a task in a process of
this machine, told of the others by the hub, and settled by a receipt.

::

    run's process   cut the plan, start processes, hand out shares     engine.py, crew.py
                    read receipts, emit their events                   cfetch/shares/driver.py
    child           read a share from its pipe, bring it, answer       child.py

Read in this order: ``choice.py`` (pure: how many processes pay), ``cores.py``, ``messages.py`` (what goes
through the pipes), ``child.py``, ``worker.py`` (a child as its parent holds it), ``crew.py`` (who gets which
share, and what a death leads to), ``engine.py``.

When it fails: a child that dies is replaced, and its share goes on with the parts that it has left; one
that dies again and again without a file is a local fault. A child whose parent is gone sees the end of its
pipe and leaves at once, as if it were killed. Ctrl-C is the parent's alone: it asks the children to end in
good order. What a killed run leaves is rolled back by the next one like any other (``cfetch/timeline/``).

Secrets go to a child through its pipe, and never by its arguments or its environment.
"""
