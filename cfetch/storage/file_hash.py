"""Hashes files that are there already: those of earlier runs, and parts that came in ranges."""

import os

from cfetch.base.secret import printable
from cfetch.manifest.entry import SafePath
from cfetch.manifest.hashing import Hash, new_hash
from cfetch.storage.disk import INLINE, Disk
from cfetch.storage.files import volume_fault

READ_BYTES = 1 << 20
READS_PER_TURN = 16  # 16 MiB, 10 ms: much more than a switch of threads, and still a prompt stop


async def hash_and_close(
    descriptor: int, algorithm: str, size_bytes: int, path: SafePath, disk: Disk = INLINE
) -> str:
    """Hash an open file, and close it; return the hex digest. Can be cancelled. Raises LocalFault."""
    running = new_hash(algorithm, size_bytes)
    await read_and_close(descriptor, running, path, disk)
    return running.hexdigest()


async def read_and_close(descriptor: int, running: Hash, path: SafePath, disk: Disk) -> None:
    """Read a file; a small file without a thread if possible, as a thread would cost more."""

    def read(times: int) -> bool:
        try:
            for _ in range(times):
                chunk = file.read(READ_BYTES)
                running.update(chunk)
                if len(chunk) < READ_BYTES:
                    return False
        except OSError as error:
            raise volume_fault(error, f"cannot read {printable(path)}") from None
        return True

    file = os.fdopen(descriptor, "rb")
    try:
        more = await disk.call(lambda: read(1))
        while more:
            more = await disk.long(lambda: read(READS_PER_TURN))
    finally:
        disk.tidy(file.close)  # it waits for a read under way, which may hang
