"""The laboratory: measures what mitigation gains, and finds better options from past runs.

    verb_bench.py  verb_tune.py    ``cfetch bench`` and ``cfetch tune``: options -> call -> render
    bench/                         a loopback origin that misbehaves, scenarios, peers, the simulator
    tuning/                        replays recorded runs under other settings
    views/                         their documents (``--json``), and tables for the terminal
    pages/                         their pages (``--html``)

Nothing that downloads needs this room. The bench starts the real command in processes of its own, so that
what it measures is what a user runs; the simulator runs the real engine in virtual time.

When it fails: a wrong file is counted, never left out; a recommendation that is within the noise is none.
"""
