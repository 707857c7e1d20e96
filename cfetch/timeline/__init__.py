"""The timeline (RFC-79): plans on disk, guarded against a second execution, rolled back when one has died.

Read in this order: ``states`` (what an instant is; one rename per change), ``rules`` (who may do what),
``heartbeat`` (who lives), ``attempts`` (where epochs write, and how they are fenced off), ``lock``,
``store``; then the verbs: ``execution``, ``rollback``, ``clean``, ``archive``. ``table`` puts
the parts together. ``files`` and ``owner`` are the edges to the machine.

Two fences make it safe, and neither is a lock or a clock. A change of state is a rename from a name that
holds the epoch, so a run whose plan was taken over cannot change it any more. And taking a plan over removes
the dead epoch's directories, so that run can neither begin nor publish a file. Heartbeats and the table lock
only decide when to try, and tell people who holds what.
"""
