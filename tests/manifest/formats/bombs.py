"""Manifests of a few bytes that claim to be enormous, each as a function; run as a program to read them.

Each line of the program's standard input names a manifest and a format, as a list in JSON. A child reads the
manifest, in this format or, for ``DETECTED``, in the one that is found, with ``LIMIT_BYTES`` of memory more
than it had when it began. The answer is a line too: the child's exit code, and what it printed, the last
fault. The program imports all once, which takes longer than most children live.
"""

import gzip
import io
import json
import os
import resource
import signal
import sys
import traceback
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from cfetch.base.config.reading import ReadingOptions
from cfetch.base.errors import ManifestError
from cfetch.manifest.reading import read_entries

LIMIT_BYTES = 500 << 20
TOO_LONG_S = 120  # without its limit each would take minutes or gigabytes
DETECTED = "detected"
TEXT = "http://h/" + "a" * ((1 << 20) - 20)
"""As long as a row may be."""


def _write(columns, rows=None, **options):
    file = io.BytesIO()
    settings = {"compression": "zstd", "write_statistics": False, "store_schema": False}
    pq.write_table(pa.table(columns), file, row_group_size=rows, **(settings | options))
    return file.getvalue()


def nulls():
    return _write({"url": pa.nulls(3_000_000, pa.string())}, 3_000_000)


def one_value_for_all_rows():
    indices = pa.repeat(pa.scalar(0, pa.int32()), 3_000_000)
    return _write({"url": pa.DictionaryArray.from_arrays(indices, pa.array(["http://h/a"]))}, 3_000_000)


def long_texts():
    keys = ("url", "path", "batch", "sha256", "md5", "sha1", "sha512", "expires_at")
    return _write({key: pa.repeat(TEXT[: 1 << 17], 512) for key in keys})


def long_value_for_many_rows():
    indices = pa.repeat(pa.scalar(0, pa.int32()), 50_000)
    return _write({"url": pa.DictionaryArray.from_arrays(indices, pa.array([TEXT]))})


def values_of_a_list():
    return _write(
        {
            "url": ["http://h/a"],
            "mirrors": pa.ListArray.from_arrays([0, 3_000_000], pa.repeat("http://m/a", 3_000_000)),
        }
    )


def long_value_for_a_list():
    indices = pa.repeat(pa.scalar(0, pa.int32()), 100_000)
    values = pa.DictionaryArray.from_arrays(indices, pa.array([TEXT]))
    return _write({"url": ["http://h/a"], "mirrors": pa.ListArray.from_arrays([0, 100_000], values)})


def one_page():
    return _write({"url": ["http://h/" + "a" * (100 << 20)]}, use_dictionary=False)


def prefixes():
    urls = pa.repeat(TEXT, 600)
    return _write({"url": urls}, use_dictionary=False, column_encoding="DELTA_BYTE_ARRAY")


def wide_values():
    """A null takes as much as its type says."""
    return _write({"url": pa.nulls(2, pa.binary(1 << 24))})


def columns():
    return _write({f"x{number}": [1] for number in range(5000)})


def _gzip(text, times):
    return gzip.compress(text * times, 9)


def csv_record():
    """Fields with line breaks in them make one row of any length."""
    return b"url\n" + b'"a\n",' * (12 << 20)


def csv_columns():
    return b"url" + b",urlx" * 150_000 + b"\n"


def metalink_sources():
    head = b'<metalink xmlns="urn:ietf:params:xml:ns:metalink"><file name="a">'
    return head + b"<url>http://h/a</url>" * (2 << 20)


def aria2_headers():
    return b"http://h/a\n" + b"".join(b" header=x%d: 1\n" % number for number in range(2 << 20))


def json_keys():
    """Keys that nobody knows, and the last one twice."""
    keys = ",".join(f'"urlx{number}":1' for number in range(60_000))
    return f'{{"url":"http://h/a",{keys},"urlx59999":1}}\n{{"url":"http://h/b",{keys}}}\n'.encode()


def bagit_blanks():
    return b"http://h/a 1" + b" " * 900_000 + b"\n"


def aria2_blanks():
    return b"http://h/a\n out=a" + b" " * 900_000 + b"b\n"


def statement_links():
    return b'{"external_links":[' + b"{}," * (8 << 20)


def whole_document():
    """Objects without content, of which as many as a document may have come into the memory at once.

    The first is none, so that the reader is not busy with finding a fault in each of five million.
    """
    return b'{"files":[0,' + b"{}," * ((16 << 20) // 3 - 10) + b"{}]}"


def longer_document():
    return b'{"files":[' + b"{}," * (8 << 20)


def unclosed_links():
    return b"<title>Index of /</title>" + b"<a href='" * (1 << 20)


def unclosed_locations():
    return b"<urlset>" + b"<loc>" * (4 << 20)


def csv_quotes():
    return b'"a","b' * (4 << 20)


def zeros():
    return _gzip(b"\0", 1 << 27)


def unclosed_string():
    return b'{"junk":"' + b'\\"' * (8 << 20)


def long_string():
    return b'{"junk":"' + b"x" * (15 << 20) + b'","files":[]}'


def brackets():
    return b'{"junk":' + b"[" * (16 << 20)


FORMATS = {
    DETECTED: [unclosed_string, long_string, brackets],
    "parquet": [
        nulls, one_value_for_all_rows, long_texts, long_value_for_many_rows, values_of_a_list,
        long_value_for_a_list, one_page, prefixes, wide_values, columns,
    ],
    "csv": [csv_record, csv_columns],
    "metalink": [metalink_sources],
    "aria2": [aria2_headers, aria2_blanks],
    "bagit": [bagit_blanks],
    "jsonl": [json_keys, zeros],
    "databricks-sql": [statement_links],
    "figshare": [whole_document, longer_document],
    "html-index": [unclosed_links],
    "sitemap": [unclosed_locations],
    "s3-inventory": [csv_quotes],
}  # fmt: skip


def _read(path, name):
    own_bytes = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    resource.setrlimit(resource.RLIMIT_AS, (own_bytes + LIMIT_BYTES,) * 2)
    try:
        with open(path, "rb") as file:
            options = ReadingOptions(from_format=None if name == DETECTED else name)
            list(read_entries(file, name="m", options=options))
    except ManifestError as error:
        print(error.problems[-1].message)


def _read_in_child(path, name):
    """The exit code and the output of a child that reads it; a signal's number is negative."""
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        code = 1
        try:
            signal.alarm(TOO_LONG_S)
            for number in (1, 2):
                os.dup2(writer, number)
            _read(path, name)
            sys.stdout.flush()
            code = 0
        except BaseException:
            traceback.print_exc()
        os._exit(code)
    os.close(writer)
    with open(reader, encoding="utf-8") as file:
        said = file.read()
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), said


if __name__ == "__main__":
    list(read_entries(io.BytesIO(b"http://h/a\n"), name="m"))
    for line in sys.stdin:
        print(json.dumps(_read_in_child(*json.loads(line))), flush=True)
