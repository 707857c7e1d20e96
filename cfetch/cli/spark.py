"""``cfetch spark pack``: cfetch as one archive for Spark's workers."""

from pathlib import Path
from typing import Annotated

import typer

from cfetch.cli.options import JsonOption

app = typer.Typer(help="Bring cfetch to the workers of a Spark cluster.", no_args_is_help=True)


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
    from cfetch.report.format import size
    from cfetch.secret import encode_json
    from cfetch.spark.pack import write_pack

    packed = write_pack(out, slim=slim)
    if json:
        typer.echo(encode_json(packed._asdict() | {"path": str(out), "submit": packed.submit_options()}))
        return
    typer.echo(
        f"{out}: {size(packed.size_bytes)}, {packed.files} files, for Python {packed.python} on "
        f"{packed.platform}\n\nspark-submit {packed.submit_options()} JOB.py"
    )
