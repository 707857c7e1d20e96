"""``scripts/cluster-demo``: an executor of a real cluster is killed in the middle of a download."""

import os
import signal
import sys
import tempfile
from pathlib import Path

from tests.cluster.scene import FILES, LATE, begin, ended, in_place, wait_until
from tests.cluster.standalone import Cluster
from tests.tasks.scene import served, write_manifest


def main() -> int:
    """Exit 0: nothing was lost."""
    with tempfile.TemporaryDirectory(prefix="cfetch-cluster-") as name, served(FILES, LATE) as origin:
        folder = Path(name)
        manifest, to = write_manifest(folder / "m.json", origin, FILES), folder / "to"
        print("starting a master and two workers on 127.0.0.2 and 127.0.0.3 …", flush=True)
        with Cluster(folder) as cluster:
            driver = begin(cluster, manifest, to)
            print(
                f"downloading {len(FILES):,} files of 16 KiB from {origin.url} on {cluster.url} …", flush=True
            )
            wait_until(lambda: in_place(to) > len(FILES) // 3, driver)
            (executor,) = cluster.executors("127.0.0.2")
            os.kill(executor, signal.SIGKILL)
            print(
                f"{in_place(to):,} files are in place; kill -9 {executor}, the executor of 127.0.0.2",
                flush=True,
            )
            found = ended(driver, origin, to)
        print(found.line())
        return 0 if (found.code, found.is_whole, set(found.told.values())) == (0, True, {1}) else 1


if __name__ == "__main__":
    sys.exit(main())
