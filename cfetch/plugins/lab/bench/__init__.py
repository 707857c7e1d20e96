"""Measures the gain of mitigation: a loopback origin that misbehaves, scenarios, peers; also the demo.

Equal scenarios give equal files, equal faults and equal connections, for every client and order of requests.
The origin runs in another process, so that its cost is not the client's, and each run writes into an empty
folder.

    run.py             ``cfetch bench`` as one call
    scenario.py        a workload as a value          scenario_file.py   its YAML (benchmarks/scenarios)
    compare.py         three runs of the real command: no faults, faults, faults and mitigation
    watching.py        shows them live, from the metrics that they write
    gate.py            the bounds that these runs break: exit code 1
    peers.py           the same for curl, aria2, wget2, rclone and s5cmd, with options stated in this file
    clean.py           ``--clean``: cfetch and curl without any fault, from a static_server.py

    child.py           one process, measured          demo.py   ``scripts/demo``

    origin.py          the server: use it in tests with ``async with Origin(files, faults)``
    process.py spec.py        the server in another process, and its orders
    connection.py  http_messages.py      requests and replies
    content.py         synthetic files that take no memory; the check of a folder against them
    faults.py          the faults of each file, drawn exactly
    network.py         the network as a value: pacing.py enacts it on loopback,
    simulation/        the same in virtual time, with the real engine

::

    for name in (ideal, none, mitigated):
        start an origin with the scenario's faults; run the command; stop it
        compare the files, read the metrics, count false alarms from the origin's journal

When it fails: a run that is not over within its limit is killed and shown as killed; a wrong file is counted,
never left out. Figures of different machines cannot be compared.
"""
