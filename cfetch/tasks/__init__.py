"""A plan cut into shares, for many tasks: processes of this machine, machines with one directory, Spark.

    shares/      cuts a plan; a driver deals the shares out and follows them; what a task does with one
    hub/         where the tasks of a run meet: slots at hosts, what they have learned, receipts
    processes/   tasks as processes of this machine
    nodes/       tasks on several machines that see one directory

A share is a whole part of a plan that one task has. Whoever can start tasks keeps the port ``TaskRunner`` of
``shares/driver.py``; the driver is the same for all of them, also for Spark (``plugins/spark``).

When it fails: a task that dies or stands still loses its share to others, and the files that it has
published stay. Without the hub a task goes on with the slots that it had.

Read ``shares/`` first, then ``hub/``.
"""
