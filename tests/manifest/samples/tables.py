"""Tables with a column of URLs: CSV, Parquet, JSON, workbooks."""

import io
import json
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tests.manifest.sample import AB, MD5, SHA, TO_BASE, URLS, H, Sample, make_workbook, to_json, to_text


def _make_parquet(**columns: Any) -> bytes:
    file = io.BytesIO()
    pq.write_table(pa.table(columns), file)
    return file.getvalue()


TABLES = [
    Sample(
        "LAION metadata (Parquet: URL, TEXT, WIDTH, …)",
        "part-00000.parquet",
        _make_parquet(
            URL=URLS, TEXT=["a", "b"], WIDTH=pa.array([512.0, 640.0]), similarity=pa.array([0.3, 0.4])
        ),
        AB,
    ),
    Sample(
        "img2dataset input (Parquet: url, caption, width, height)",
        "input.parquet",
        _make_parquet(url=URLS, caption=["a", "b"], width=[1, 2], height=[1, 2]),
        AB,
    ),
    Sample("Parquet with url alone", "m.parquet", _make_parquet(url=URLS), AB),
    Sample(
        "Parquet with a column of nested values",
        "m.parquet",
        _make_parquet(url=URLS, meta=[{"a": [1]}, {"a": [2]}]),
        AB,
    ),
    Sample("CSV: image_url", "m.csv", to_text("id,image_url", f"1,{URLS[0]}", f"2,{URLS[1]}"), AB),
    Sample("CSV: url,label", "m.csv", to_text("url,label", f"{URLS[0]},cat", f"{URLS[1]},dog"), AB),
    Sample("CSV: URL in capitals", "m.csv", to_text("URL", *URLS), AB),
    Sample("CSV with semicolons", "m.csv", to_text("url;label", f"{URLS[0]};cat", f"{URLS[1]};dog"), AB),
    Sample(
        "CSV: two columns of URLs",
        "m.csv",
        to_text("image_url,video_url", ",".join(URLS)),
        refusal="--url-column",
    ),
    Sample(
        "the same with --url-column image_url",
        "m.csv",
        to_text("image_url,video_url", ",".join(URLS)),
        ("a.jpg",),
        flags="--url-column image_url",
    ),
    Sample(
        "CSV: address,where,digest",
        "m.csv",
        to_text("address,where,digest", f"{URLS[0]},x/1.jpg,{SHA}"),
        ("x/1.jpg",),
        flags="--url-column address --path-column where --hash-column sha256=digest",
    ),
    Sample(
        "CSV with a slip in a name (sha265)",
        "m.csv",
        to_text("url,sha265", f"{URLS[0]},{SHA}"),
        refusal="is it 'sha256'",
    ),
    Sample(
        "CC3M, CC12M (TSV without names: caption, URL)",
        "cc3m.tsv",
        to_text(f'a "red" boat\t{URLS[0]}', f"two dogs\t{URLS[1]}"),
        AB,
    ),
    Sample("TSV: URL<tab>caption, named", "wit.tsv", to_text("url\tcaption", f"{URLS[0]}\ta"), ("a.jpg",)),
    Sample("JSON array of objects", "m.json", to_json([{"url": url, "caption": "c"} for url in URLS]), AB),
    Sample(
        "JSON Lines whose columns are named as in a bucket's listing",
        "m.jsonl",
        to_text(json.dumps({"url": URLS[0], "key": "other", "type": "image", "last_modified": "2024"})),
        ("a.jpg",),
    ),
    Sample(
        "JSON array whose columns are named as in a bucket's listing",
        "m.json",
        to_json([{"url": URLS[0], "Key": "other", "LastModified": "2024"}]),
        ("a.jpg",),
    ),
    Sample("JSON array of URLs", "m.json", to_json(URLS), AB),
    Sample(
        "JSON Lines with other keys",
        "m.jsonl",
        to_text(*(json.dumps({"image_url": url, "tags": ["x"]}) for url in URLS)),
        AB,
    ),
    Sample(
        "datasets-server rows, WebDataset index: JSON Lines with nested values",
        "m.jsonl",
        to_text(json.dumps({"url": URLS[0], "meta": {"a": {"b": 1}}})),
        ("a.jpg",),
    ),
    Sample("workbook (.xlsx)", "list.xlsx", make_workbook(("url", "size"), (f"{H}a.jpg", 3)), ("a.jpg",)),
    Sample(
        "CSV: relative links keep their directories",
        "oa.csv",
        to_text("File,id", "x/a.gz,1", "y/a.gz,2"),
        ("x/a.gz", "y/a.gz"),
        flags=f"--url-column File {TO_BASE}",
    ),
    Sample(
        "GDC manifest",
        "gdc.txt",
        to_text("id\tfilename\tmd5\tsize", f"1-2\ta.bam\t{MD5}\t100"),
        refusal="or make URLs of others by --url-template",
    ),
    Sample(
        "the same with --url-template",
        "gdc.txt",
        to_text("id\tfilename\tmd5\tsize", f"1-2\ta.bam\t{MD5}\t100"),
        ("a.bam",),
        flags="--url-template https://api.example/data/{id}",
    ),
]
