"""An origin in a thread, for tests that are no coroutines, and manifests of what it has."""

import asyncio
import hashlib
import json
import threading
from contextlib import contextmanager

from cfetch.plugins.lab.bench.origin import Origin

__all__ = ["asked", "lines", "manifest", "serving"]


@contextmanager
def serving(files, faults=None):
    """``files`` and ``faults`` by path."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        origin = Origin(files, faults)
        asyncio.run_coroutine_threadsafe(origin.__aenter__(), loop).result()
        try:
            yield origin
        finally:
            asyncio.run_coroutine_threadsafe(origin.__aexit__(None, None, None), loop).result()
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


def entry(name, origin, content=None, **more):
    """One of a manifest's, with its hash if its content is told."""
    proof = {} if content is None else {"sha256": hashlib.sha256(content).hexdigest(), "size": len(content)}
    return {"url": origin.url + name, "path": name, **proof, **more}


def manifest(path, origin, files, *more):
    """A manifest of ``files`` and of what the server may not have; its path."""
    entries = [entry(name, origin, content) for name, content in files.items()]
    path.write_text(json.dumps({"version": 1, "files": [*entries, *(entry(one, origin) for one in more)]}))
    return path


def lines(path, origin, names):
    """Add entries to a manifest of a feed."""
    with path.open("a") as file:
        file.writelines(json.dumps(entry(name, origin)) + "\n" for name in names)


def asked(origin):
    """How often each file was asked for."""
    found: dict[str, int] = {}
    for request in origin.requests:
        found[request.path] = found.get(request.path, 0) + 1
    return found
