"""The page: one HTML file that shows runs, and the live page of a run under way. Plug-ins add sections.

Python computes everything that is shown, as one document; the scripts in ``assets`` only draw it.

    document.py      the document: parts, sections of a few kinds
    runs_page.py     the page of recorded runs
    verdicts.py      the sentence that it begins with    ideal.py   the time that a run could have taken
    run_names.py     names of runs and titles of pages
    overview.py      its first part: figures, differences of two runs, settings
    run_part.py      one run: charts and tables, in one pass over its records
    timeline.py      attempts as bars in lanes        throughput.py   bytes by host, slots in use, events
    file_times.py    distributions of file times      time_bins.py    sums over time in bounded memory
    html.py          template, styles, scripts and document as one file

::

    records -> RunPart -> Part -> Page -> JSON -> html.py -> a file
                                              -> the live page, again and again

uPlot, which is in ``assets`` with its licence, draws the charts: it is small (51 KB), makes no requests, and
stays fast with thousands of points. The scripts set names of files as text only.

When it fails: a file that cannot be written is a local fault. A page of any run has a bounded size, as
``timeline.py``, ``time_bins.py`` and ``file_times.py`` merge details that are too small to be seen.

Where to change: a new chart is a kind of section in ``document.py`` and a function in the assets' table of
drawers; a new table needs only Python.
"""
