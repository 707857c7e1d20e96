"""Locks a directory for its users: any number of runs, or one process that moves batches away or to it.

``locks.py`` says how long the system keeps a lock, and what holds where there are none.
"""

from contextlib import suppress

from cfetch.base.errors import LocalFault
from cfetch.storage.directory import Directory
from cfetch.storage.files import volume_fault
from cfetch.storage.locks import need_lock, release_lock, take_lock

WAIT = "wait until it has ended (--wait does), or end it, and run the same command again"


def register_run(directory: Directory) -> None:
    """Note that a run is at work here. Raises Held while batches are moved; LocalFault."""
    held = f"cfetch volume is moving batches of {directory.root} ({{holder}}); {WAIT}"
    try:  # without locks nobody can move batches here
        take_lock(directory.descriptor_of(""), held, shared=True)
    except OSError as error:
        raise volume_fault(error, f"cannot lock {directory.root}") from None


def occupy(directory: Directory) -> None:
    """Keep runs away while batches are moved. Raises Held while a run or a move is at work; LocalFault."""
    held = f"another run or move is at work on {directory.root} ({{holder}}); {WAIT}"
    remedy = "runs cannot be kept away; move batches on the machine that has the disk"
    try:
        need_lock(directory.descriptor_of(""), held, name=directory.root, remedy=remedy)
    except OSError as error:
        raise volume_fault(error, f"cannot lock {directory.root}") from None


def leave(directory: Directory) -> None:
    """Release the lock, if there is one."""
    with suppress(OSError, LocalFault):
        release_lock(directory.descriptor_of(""))
