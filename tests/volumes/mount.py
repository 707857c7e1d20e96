"""``python -m tests.volumes.mount BELOW DIR``: DIR shows the files of BELOW, until it is told not to answer.

A FUSE file system in one process, which speaks the kernel's protocol itself (linux/fuse.h, version 7.31), so
that no library is needed. Standard input rules it, one word a line: ``hang`` answers no request any more,
``full`` and ``readonly`` refuse what writes; ``unreadable`` and ``mute`` are full too, and refuse what reads
files, or let it wait; ``well`` answers all again, also those that wait; the end of input ends it. It says
``mounted`` when it is, and repeats each word, with the number of files that it has refused to let read.
"""

import ctypes
import errno
import os
import select
import stat
import struct
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

MOST_BYTES = 128 << 10  # of one write
BUFFER_BYTES = MOST_BYTES + 4096
HEAD = struct.Struct("<IIQQIIII")  # len, opcode, unique, node, uid, gid, pid, padding
OUT = struct.Struct("<IiQ")
ATTR = struct.Struct("<QQQQQQIIIIIIIIII")
ENTRY = struct.Struct("<QQQQII")
DETACHED = 2  # MNT_DETACH
WRITES = {4, 6, 8, 9, 10, 11, 12, 13, 16, 35, 43, 45}  # of the numbers below
READ = 15
GROWS = {6, 8, 9, 13, 16, 35, 43}
_libc = ctypes.CDLL(None, use_errno=True)


class Mirror:
    """Answers requests by those of the directory ``below``; nodes are numbered in the order they are met."""

    def __init__(self, below: Path) -> None:
        self._paths: dict[int, str] = {1: str(below)}
        self._nodes: dict[str, int] = {str(below): 1}
        self._calls: dict[int, Callable[[int, bytes], bytes | None]] = {
            1: self._lookup,
            3: self._getattr,
            4: self._setattr,
            9: self._mkdir,
            10: self._unlink,
            11: self._rmdir,
            12: lambda node, data: self._rename(node, data, 8),
            13: self._link,
            14: self._open,
            15: self._read,
            16: self._write,
            17: self._statfs,
            18: self._release,
            20: self._fsync,
            26: self._init,  # FLUSH, 25, is refused: a process that ends would wait for it
            27: lambda node, data: struct.pack("<QII", 0, 0, 0),
            28: self._readdir,
            29: lambda node, data: b"",
            30: lambda node, data: b"",
            35: self._create,
            45: lambda node, data: self._rename(node, data, 16),
            50: lambda node, data: b"",
        }

    def answer(self, opcode: int, node: int, data: bytes) -> bytes | int | None:
        """The answer's bytes, the number of an error, or None: the kernel wants none."""
        if opcode in (2, 36, 42):  # FORGET, INTERRUPT, BATCH_FORGET
            return None
        if (call := self._calls.get(opcode)) is None:
            return errno.ENOSYS
        try:
            return call(node, data)
        except OSError as error:
            return error.errno or errno.EIO
        except (KeyError, ValueError):  # no such node, or one whose file has gone
            return errno.ESTALE

    def _node(self, path: str) -> int:
        return self._nodes.setdefault(path, self._new(path))

    def _new(self, path: str) -> int:
        node = len(self._paths) + 1
        if path not in self._nodes:
            self._paths[node] = path
        return node

    def _at(self, node: int, name: bytes) -> str:
        return f"{self._paths[node]}/{os.fsdecode(name.rstrip(chr(0).encode()))}"

    def _forget(self, path: str) -> None:
        node = self._nodes.pop(path, None)
        if node is not None:
            self._paths[node] = f"{path}\0gone"

    @staticmethod
    def _attr(status: os.stat_result) -> bytes:
        times = [status.st_atime_ns, status.st_mtime_ns, status.st_ctime_ns]
        return ATTR.pack(
            status.st_ino,
            status.st_size,
            status.st_blocks,
            *(t // 10**9 for t in times),
            *(t % 10**9 for t in times),
            status.st_mode,
            status.st_nlink,
            status.st_uid,
            status.st_gid,
            0,
            4096,
            0,
        )

    def _entry(self, path: str) -> bytes:
        status = os.lstat(path)
        return ENTRY.pack(self._node(path), 0, 0, 0, 0, 0) + self._attr(status)

    def _init(self, node: int, data: bytes) -> bytes:
        big_writes = 1 << 5
        sizes = (1 << 16, big_writes, 12, 9, MOST_BYTES, 1, 32, 0)
        return struct.pack("<IIIIHHIIHHI7I", 7, 31, *sizes, *[0] * 8)

    def _lookup(self, node: int, data: bytes) -> bytes:
        return self._entry(self._at(node, data))

    def _getattr(self, node: int, data: bytes) -> bytes:
        flags, _, handle = struct.unpack_from("<IIQ", data)
        status = os.fstat(handle) if flags & 1 else os.lstat(self._paths[node])
        return struct.pack("<QII", 0, 0, 0) + self._attr(status)

    def _setattr(self, node: int, data: bytes) -> bytes:
        valid, _, handle, size = struct.unpack_from("<IIQQ", data)
        at, changed = struct.unpack_from("<QQ", data, 32)
        at_ns, changed_ns = struct.unpack_from("<II", data, 56)
        mode = struct.unpack_from("<I", data, 68)[0]
        target = handle if valid & (1 << 6) else self._paths[node]
        if valid & 1:
            os.chmod(target, stat.S_IMODE(mode))
        if valid & 8:
            os.truncate(target, size)
        if valid & 32 and not valid & 256:
            os.utime(target, ns=(at * 10**9 + at_ns, changed * 10**9 + changed_ns))
        status = os.fstat(handle) if valid & (1 << 6) else os.lstat(self._paths[node])
        return struct.pack("<QII", 0, 0, 0) + self._attr(status)

    def _mkdir(self, node: int, data: bytes) -> bytes:
        mode, umask = struct.unpack_from("<II", data)
        path = self._at(node, data[8:])
        os.mkdir(path, mode & ~umask)
        return self._entry(path)

    def _unlink(self, node: int, data: bytes) -> bytes:
        path = self._at(node, data)
        os.unlink(path)
        self._forget(path)
        return b""

    def _rmdir(self, node: int, data: bytes) -> bytes:
        path = self._at(node, data)
        os.rmdir(path)
        self._forget(path)
        return b""

    def _rename(self, node: int, data: bytes, at: int) -> bytes:
        (there,) = struct.unpack_from("<Q", data)
        old_name, new_name, *_ = data[at:].split(b"\0")
        old, new = self._at(node, old_name), self._at(there, new_name)
        os.rename(old, new)
        self._forget(new)
        for path in [each for each in self._nodes if each == old or each.startswith(f"{old}/")]:
            moved = self._nodes.pop(path)
            self._paths[moved] = new + path[len(old) :]
            self._nodes[self._paths[moved]] = moved
        return b""

    def _link(self, node: int, data: bytes) -> bytes:
        (old,) = struct.unpack_from("<Q", data)
        path = self._at(node, data[8:])
        os.link(self._paths[old], path)
        return self._entry(path)

    def _open(self, node: int, data: bytes) -> bytes:
        (flags,) = struct.unpack_from("<I", data)
        flags &= ~(os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_APPEND)
        return struct.pack("<QII", os.open(self._paths[node], flags), 0, 0)

    def _read(self, node: int, data: bytes) -> bytes:
        handle, offset, size = struct.unpack_from("<QQI", data)
        return os.pread(handle, size, offset)

    def _write(self, node: int, data: bytes) -> bytes:
        handle, offset, size = struct.unpack_from("<QQI", data)
        return struct.pack("<II", os.pwrite(handle, data[40 : 40 + size], offset), 0)

    def _statfs(self, node: int, data: bytes) -> bytes:
        v = os.statvfs(self._paths[1])
        counts = (v.f_blocks, v.f_bfree, v.f_bavail, v.f_files, v.f_ffree)
        return struct.pack("<QQQQQIIII6I", *counts, v.f_bsize, v.f_namemax, v.f_frsize, 0, *[0] * 6)

    def _release(self, node: int, data: bytes) -> bytes:
        os.close(struct.unpack_from("<Q", data)[0])
        return b""

    def _fsync(self, node: int, data: bytes) -> bytes:
        os.fsync(struct.unpack_from("<Q", data)[0])
        return b""

    def _create(self, node: int, data: bytes) -> bytes:
        flags, mode, umask, _ = struct.unpack_from("<IIII", data)
        path = self._at(node, data[16:])
        handle = os.open(path, flags | os.O_CREAT, mode & ~umask)
        return self._entry(path) + struct.pack("<QII", handle, 0, 0)

    def _readdir(self, node: int, data: bytes) -> bytes:
        _, offset, size = struct.unpack_from("<QQI", data)
        out = b""
        names = [".", "..", *sorted(os.listdir(self._paths[node]))]
        for number, name in enumerate(names[offset:], offset + 1):
            text = os.fsencode(name)
            entry = struct.pack("<QQII", number, number, len(text), 0) + text
            entry += bytes(-len(entry) % 8)
            if len(out) + len(entry) > size:
                break
            out += entry
        return out


def serve(below: Path, root: str) -> None:
    """Until standard input ends."""
    device = os.open("/dev/fuse", os.O_RDWR | os.O_NONBLOCK)
    options = f"fd={device},rootmode=40000,user_id={os.getuid()},group_id={os.getgid()},max_read=131072"
    if _libc.mount(b"mirror", os.fsencode(root), b"fuse", 0, options.encode()):
        raise OSError(ctypes.get_errno(), "mount", root)
    print("mounted", flush=True)
    mirror, state = Mirror(below), "well"
    waiting: list[bytes] = []
    unread: set[int] = set()

    def answer(request: bytes) -> None:
        _, opcode, unique, node, *_ = HEAD.unpack_from(request)
        found: bytes | int | None
        if state in ("unreadable", "mute") and opcode == READ:
            unread.add(node)
        if state == "mute" and opcode == READ:
            waiting.append(request)
            return
        if state == "unreadable" and opcode == READ:
            found = errno.EIO
        elif state in ("full", "unreadable", "mute") and opcode in GROWS:
            found = errno.ENOSPC
        elif state == "readonly" and opcode in WRITES:
            found = errno.EROFS
        else:
            found = mirror.answer(opcode, node, request[HEAD.size :])
        if found is not None:
            data, error = (b"", -found) if isinstance(found, int) else (found, 0)
            try:
                os.write(device, OUT.pack(OUT.size + len(data), error, unique) + data)
            except OSError as gone:  # who asked does not wait any more
                if gone.errno not in (errno.ENOENT, errno.EINVAL):
                    raise

    while True:
        # a request that is not read can be killed with its process
        ready, _, _ = select.select([0] if state == "hang" else [device, 0], [], [])
        if 0 in ready:
            word = os.read(0, 100).decode().split()
            if not word:
                break
            state = word[-1]
            while state == "well" and waiting:
                answer(waiting.pop())
            print(state, len(unread), flush=True)
        if device in ready:
            with suppress(BlockingIOError, FileNotFoundError):  # who asked has been killed
                answer(os.read(device, BUFFER_BYTES))
    _libc.umount2(os.fsencode(root), DETACHED)


if __name__ == "__main__":
    serve(Path(sys.argv[1]), sys.argv[2])
