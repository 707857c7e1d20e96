"""Writes docs/settings.md, a table of all options: ``python -m cfetch.base.config.settings_page``."""

import sys
from dataclasses import fields

from cfetch.base.config.option_table import OptionTable
from cfetch.base.config.settings import KINDS

HEAD = """# All settings

Every option of `cfetch download`, as a key of a `--config` file and as a keyword of `cfetch.Settings`. As a
flag it is `--key` with hyphens, as a variable `CFETCH_KEY`. This page is generated:
`python -m cfetch.base.config.settings_page > docs/settings.md`.

| key | default | values | what it does |
|---|---|---|---|
"""


def make_page() -> str:
    """The page in Markdown."""
    rows = []
    for field in fields(OptionTable):
        kind = KINDS[field.name]
        default = "-" if field.default is None else f"`{kind.show(field.default)}`"
        values = "true, false" if kind.is_flag else kind.range_text()
        cells = (f"`{field.name}`", default, values, kind.help)
        rows.append(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |\n")
    return HEAD + "".join(rows)


if __name__ == "__main__":
    sys.stdout.write(make_page())
