"""The pages of the laboratory: documents of bench, simulation and tune as sections of a page.

    bench_page.py         the gain in a sentence, runs side by side, with their charts
    simulation_page.py    how often which policy is the fastest, all scenarios in one chart
    tuning_page.py        what to set, scores by setting with their intervals

``show/page/`` draws the sections; this room only makes them. Each page is one file that needs no network.

When it fails: a page that cannot be written is a local fault; the measurement is printed all the same.

Where to change: a new figure of the bench is a field in ``plugins/lab/views/bench_document.py`` first, and
then a cell here.
"""
