"""Stand-ins on loopback for what pooch's own tests ask: GitHub, doi.org, Zenodo, figshare and a Dataverse.

One server has a folder for each host. Replies have the form that the services document, with the fields that
a reader needs; the files are those of pooch's own repository.
"""

import gzip
import hashlib
import json
import re
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

ARCHIVE = ("tiny-data.txt", "store.zip")
DATAVERSE = "heidata.uni-heidelberg.de"
PLACES = {  # where doi.org leads
    "10.6084/m9.figshare.14763051.v1": "https://figshare.com/articles/dataset/x/14763051/1",
    "10.6084/m9.figshare.14763051": "https://figshare.com/articles/dataset/x/14763051",
    "10.5281/zenodo.4924875": "https://zenodo.org/records/4924875",
    "10.5281/zenodo.7632643": "https://zenodo.org/records/7632643",
    "10.11588/data/tkcfef": f"https://{DATAVERSE}/dataset.xhtml?persistentId=doi:10.11588/data/TKCFEF",
    "10.21105/joss.01943": "https://joss.theoj.org/papers/10.21105/joss.01943",
}
VERSIONS = {  # of figshare's article 21665630
    "1": "cropped-before.tar.gz",
    "2": "LC08_L2SP_218074_20190114_20200829_02_T1-cropped.tar.gz",
}
ELSEWHERE = "X-Stands-At"  # the address at which the real service would have answered


class StandIns:
    """The server, and the ways to it. ``data``: the folder of files of pooch's tests."""

    def __init__(self, data: Path) -> None:
        self._data = data
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                """Answer for a host."""
                found = outer.answer(self.path)
                body, headers = found if found is not None else (b"", {})
                if self.path.endswith(".txt") and "gzip" in self.headers.get("Accept-Encoding", ""):
                    body, headers = gzip.compress(body), {**headers, "Content-Encoding": "gzip"}  # as GitHub
                self.send_response(404 if found is None else 200)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body if self.command == "GET" else b"")

            do_HEAD = do_GET  # noqa: N815

            def log_message(self, *_: object) -> None:
                """Stay silent."""

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.port = server.server_port
        self._hosts = {urlsplit(place).hostname for place in PLACES.values()}
        self._hosts |= {"doi.org", "github.com", "api.figshare.com", "ndownloader.figshare.com"}

    def route(self, url: str) -> str:
        """The address of the stand-in for a URL; the URL itself if its host has none."""
        parts = urlsplit(url)
        if parts.hostname not in self._hosts:
            return url
        query = f"?{parts.query}" if parts.query else ""
        return f"http://127.0.0.1:{self.port}/{parts.hostname}{parts.path}{query}"

    def lead(self, ask: Callable[..., Any]) -> Callable[..., Any]:
        """A function of requests that asks the stand-ins, and shows the services' addresses."""

        def ask_stand_in(url: str, *args: Any, **options: Any) -> Any:  # noqa: ANN401 - passed on
            reply = ask(self.route(url), *args, **options)
            reply.url = reply.headers.get(ELSEWHERE, url)
            return reply

        return ask_stand_in

    def answer(self, path: str) -> tuple[bytes, dict[str, str]] | None:
        """Body and headers of a reply; None: there is no such thing."""
        parts = urlsplit(path)
        _, host, *words = unquote(parts.path).split("/")
        rest, query = "/".join(words), parse_qs(parts.query)
        match host:
            case "github.com":
                named = re.fullmatch(r"fatiando/pooch/raw/[^/]+/(?:pooch/tests/)?data/(.+)", rest)
                return self._file(named[1]) if named else None
            case "doi.org":
                place = PLACES.get(rest.strip("/").lower())
                return None if place is None else (b"", {ELSEWHERE: place})
            case "zenodo.org":
                return self._zenodo(words)
            case "api.figshare.com":
                return self._figshare(words, query)
            case "ndownloader.figshare.com":
                return self._file(words[-1])
            case "heidata.uni-heidelberg.de":
                return self._dataverse(rest, query)
        return None

    def _file(self, name: str) -> tuple[bytes, dict[str, str]] | None:
        candidates = (self._data / name, self._data / "store" / name)
        path = next((path for path in candidates if path.is_file()), None)
        return None if path is None else (path.read_bytes(), {"Content-Type": "application/octet-stream"})

    def _md5(self, name: str) -> str:
        return hashlib.md5((self._data / name).read_bytes()).hexdigest()

    def _zenodo(self, words: list[str]) -> tuple[bytes, dict[str, str]] | None:
        match words:
            case ["api", "records", "4924875"]:
                kept = {name: name for name in ARCHIVE}
            case ["api", "records", "7632643"]:
                kept = {"santisoler/pooch-test-data-v1.zip": "tiny-data.zip"}
            case ["api", "records", _, "files", *name, "content"]:
                return self._file({"pooch-test-data-v1.zip": "tiny-data.zip"}.get(name[-1], name[-1]))
            case _:
                return None
        files = [
            {
                "key": key,
                "size": (self._data / name).stat().st_size,
                "checksum": f"md5:{self._md5(name)}",
                "links": {"self": f"https://zenodo.org/api/records/{words[2]}/files/{key}/content"},
            }
            for key, name in kept.items()
        ]
        return _as_json({"id": int(words[2]), "files": files})

    def _figshare(self, words: list[str], query: dict[str, list[str]]) -> tuple[bytes, dict[str, str]] | None:
        match words:
            case ["v2", "articles"]:
                named = re.search(r"figshare\.(\d+)", query.get("doi", [""])[0])
                return _as_json([{"id": int(named[1])}] if named else [])
            case ["v2", "articles", "21665630", "versions", version] if version in VERSIONS:
                return _as_json({"files": [{"name": VERSIONS[version]}]})
            case ["v2", "articles", "14763051", *_]:
                files = [
                    {
                        "name": name,
                        "computed_md5": self._md5(name),
                        "download_url": f"https://ndownloader.figshare.com/files/{name}",
                    }
                    for name in ARCHIVE
                ]
                return _as_json({"files": files})
        return None

    def _dataverse(self, rest: str, query: dict[str, list[str]]) -> tuple[bytes, dict[str, str]] | None:
        if rest.startswith("api/access/datafile/"):
            return self._file(ARCHIVE[int(rest.rpartition("/")[2])])
        if rest == "api/datasets/:persistentId" and query.get("persistentId") == ["doi:10.11588/data/TKCFEF"]:
            files = [
                {"dataFile": {"id": number, "filename": name, "md5": self._md5(name)}}
                for number, name in enumerate(ARCHIVE)
            ]
            return _as_json({"data": {"latestVersion": {"files": files}}})
        return None


def _as_json(document: object) -> tuple[bytes, dict[str, str]]:
    return json.dumps(document).encode(), {"Content-Type": "application/json"}
