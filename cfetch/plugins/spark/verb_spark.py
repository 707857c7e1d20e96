"""``cfetch spark``: cfetch as one archive for Spark's workers."""

from pathlib import Path
from typing import Annotated

import typer

from cfetch.cli.output import print_document
from cfetch.cli.verb_options import JsonOption

app = typer.Typer(
    help="Bring cfetch to the workers of a Spark cluster.",
    no_args_is_help=True,
)


@app.callback()
def root() -> None:
    """Bring cfetch to the workers of a Spark cluster."""


@app.command()
def pack(
    *,
    out: Annotated[Path, typer.Option("--out", "-o", help="Write the archive here.", metavar="FILE")] = Path(
        "cfetch-pack.tar.gz"
    ),
    slim: Annotated[
        bool, typer.Option("--slim", help="Leave out pandas, pyarrow and numpy: the workers have them.")
    ] = False,
    json: JsonOption = False,
) -> None:
    """Pack cfetch, with all that its tasks need, for workers that have nothing but Python and Spark.

    The workers' Python has to have the version of this one, on the same kind of machine. The command prints
    the options of spark-submit that ship the archive; PYSPARK_SUBMIT_ARGS takes the same options.

    Examples:

      cfetch spark pack

      cfetch spark pack --slim -o /shared/cfetch.tar.gz
    """
    from cfetch.plugins.spark.pack import write_pack
    from cfetch.show.format import plural, size

    packed = write_pack(out, slim=slim)
    if json:
        print_document(packed._asdict() | {"path": str(out), "submit": packed.submit_options()})
        return
    typer.echo(
        f"{out}: {size(packed.size_bytes)}, {plural(packed.files, 'file')}, for Python {packed.python} on "
        f"{packed.platform}\n\nspark-submit {packed.submit_options()} JOB.py"
    )
