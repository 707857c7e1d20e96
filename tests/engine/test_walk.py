"""The walk of one entry in a worker's hands: from place to place, with little back and forth.

A station is a move of control into a function of another place: a file of the engine, or another room as a
whole. It is a return if the walk has been there before. Left out are constructors, properties, and look-ups:
functions that ask nobody else and answer something. The clock is no place.
"""

import inspect
import sys
from pathlib import Path

import cfetch
from cfetch.storage.part_file import SMALL_BYTES
from tests.engine.drive import drive
from tests.engine.fake import Reply

HOUSE = Path(cfetch.__file__).parent
MOST_STATIONS, MOST_RETURNS = 39, 14
LARGE = 1 + SMALL_BYTES  # a smaller file may be published with others, after the walk
NO_PLACES = {"base/clock.py", "base/virtual_clock.py", "base/secret.py"}


def place_of(code):
    """A file of the engine or of what all rooms stand on, or the room."""
    path = Path(code.co_filename)
    if not path.is_relative_to(HOUSE):
        return None
    parts = path.relative_to(HOUSE).parts
    place = "/".join(parts) if parts[0] in {"engine", "base"} else parts[0]
    return None if place in NO_PLACES else place


def is_property(frame):
    """Whether the frame computes an attribute of its object."""
    owner = type(frame.f_locals.get("self"))
    return isinstance(inspect.getattr_static(owner, frame.f_code.co_name, None), property)


class Tracer:
    """Notes each call of the house's functions once, with its caller; a coroutine that goes on is no call."""

    def __init__(self):
        self.frames = {}  # keeps them, so that an id stays one frame's
        self.callers = {}
        self.answers = {}

    def __call__(self, frame, event, answer):
        if place_of(frame.f_code) is None or frame.f_code.co_name.startswith("<"):
            return
        if event == "call" and id(frame) not in self.frames and not is_property(frame):
            self.frames[id(frame)] = frame
            caller = frame.f_back
            while caller is not None and id(caller) not in self.frames:
                caller = caller.f_back
            self.callers[id(frame)] = id(caller)
        elif event == "return":
            self.answers[id(frame)] = answer

    def walk(self, first):
        """The places of all that ``first`` called, in order."""
        inside = {key for key, frame in self.frames.items() if frame.f_code.co_qualname == first}
        asked = set(self.callers.values())
        places: list[str | None] = []
        for key, frame in self.frames.items():
            if key not in inside and self.callers[key] not in inside:
                continue
            inside.add(key)
            is_lookup = key not in asked and self.answers.get(key) is not None
            if frame.f_code.co_name != "__init__" and not is_lookup:
                place = place_of(frame.f_code)
                if not places or places[-1] != place:
                    places.append(place)
        return places


def test_an_entry_is_brought_without_much_back_and_forth(tmp_path):
    """One file, one worker, one directory: few stations, and few of them twice."""
    tracer = Tracer()
    sys.setprofile(tracer)
    try:
        outcome = drive(tmp_path, {"a": Reply(bytes(LARGE))}, concurrency=1)
    finally:
        sys.setprofile(None)
    assert outcome.statuses == ["done"]
    places = tracer.walk("EntryBringer.bring")
    returns = [place for n, place in enumerate(places) if place in places[:n]]
    assert {"engine/fetcher.py", "engine/attempts_under_way.py", "engine/entry_records.py", "storage"} <= set(
        places
    )
    assert len(places) <= MOST_STATIONS, places
    assert len(returns) <= MOST_RETURNS, places
