"""Options: one table of all options, six layers of values, and the reasons for each default.

    option_table.py every option: type, default, range, help and why
    settings.py     ``Settings``, the checked values; the values that other rooms get of them
    kinds.py        the kinds of values: how the text is read, the range, how the value is shown
    units.py        sizes, rates and durations as people write them; ``addresses.py``: those of hosts
    timetable.py    rates by the time of day
    layers.py       default < ``--preset`` < user's file < ``--config`` file < ``CFETCH_…`` < flag
    python_words.py     flags in help and errors as keywords of Python
    python_values.py    values of options in Python's forms; settings_words.py: their types
    settings_page.py    writes docs/settings.md
    shown.py        the resolved options as a document, for ``--show-config``
    document.py     a YAML file as plain text values: no types are guessed
    straggler.py    the options of the straggler room, and the names of the drivers; ``misspelt.py``
    path_filter.py  which paths of a list or a feed are taken
    reading.py      the options for reading a manifest: columns, names, faulty rows
    wire.py         the options of the wire: network and rate limits
    engine.py       the options of the engine's parts: widths, and placement on several volumes

The flags of the command line (``cli/options.py``), keys of files, variables, ``--show-config`` and the run
header of the metrics are all made from the table::

    for layer in (preset, user_file, file, environment, flags):
        for key, text in layer:
            values[key] = KINDS[key].parse(text)        a fault is noted, and reading goes on
    all faults at once, or Settings(**values)

An option may choose the policy: if no policy is named, an option that only the formula reads (``FORMULA``)
chooses ``cloudfetch``. ``Resolved.notes`` says so, and the command line prints it at the start of a run.

Only use cases, and the pool with its monitor and its fetcher, see ``Settings`` as a whole. Other rooms and
parts of the engine take frozen values of their own, which ``Settings`` composes (``Settings.straggler``,
``reading``, ``network``, ``rates``, ``widths``, ``placing``); an import contract keeps it so.

When it fails: ``ConfigError``, before any request or write. The error names key, value and range; it does not
quote a value that may hold a secret.

To add an option: a field of ``OptionTable``, its panel in ``cli/options.py``, and a line with the reason in
configs/default.yaml. Tests compare the three.
"""
