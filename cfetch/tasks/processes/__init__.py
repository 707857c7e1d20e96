"""The same download by several processes of this machine: one plan, a loop on each of a few cores.

A plan is cut into the shares of ``tasks/shares/``, as on Spark. A task in a process of this machine brings
each share, learns about the others from the hub, and leaves a receipt.

::

    run's process   cut the plan, start processes, hand out shares     engine.py, child_processes.py
                    read receipts, emit their events                   cfetch/tasks/shares/driver.py
    child           read a share from its pipe, bring it, answer       child.py

Read in this order: ``app/process_count.py`` (pure: how many processes pay), ``messages.py`` (the messages on
the pipes), ``child.py``, ``worker.py`` (the parent's handle of a child), ``child_processes.py`` (which
process gets which share, and what follows a death), ``engine.py``.

When it fails: a child that dies, or gives no sign of life for a minute, is replaced, and its share continues
with the parts that it has left; an idle child does not wait for that minute, and brings a copy of the share.
If children die again and again without bringing a file, that is a local fault. A child whose parent is gone
sees the end of its pipe and exits at once, as if it were killed. Only the
parent handles Ctrl-C: it asks the children to end in good order. The next run rolls back what a killed run
leaves (``cfetch/timeline/``).

Secrets go to a child through its pipe, and never by its arguments or its environment.
"""
