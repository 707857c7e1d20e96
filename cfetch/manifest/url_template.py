"""Makes URLs of a table's columns: ``https://h.example/files/{id}``."""

import re
from urllib.parse import quote

from cfetch.base.errors import UsageError

_PLACE = re.compile(r"\{([^{}]+)\}")
_SAFE_IN_PATHS = "/~!$&'()*+,;=@:"


class UrlTemplate:
    """A template; ``names`` are its columns, and ``places`` has the key that a row has for each."""

    def __init__(self, text: str) -> None:
        """Raise UsageError: it has no column."""
        self._parts = _PLACE.split(text)  # texts and names by turns
        self.names = self._parts[1::2]
        self.places: dict[str, str] = {}
        if not self.names:
            raise UsageError("--url-template has the names of columns in braces, as https://h.example/{id}")

    def fill(self, fields: dict[str, object]) -> dict[str, object]:
        """The fields with their URL, and without the arguments; without a URL if an argument is missing."""
        values = {name: fields.get(self.places[name]) for name in self.names}
        others = {key: value for key, value in fields.items() if not key.startswith("\0")}
        if any(value is None or value == "" or isinstance(value, dict | list) for value in values.values()):
            return others
        url = ""
        for place, part in enumerate(self._parts):
            if place % 2 == 0:
                url += part
            elif not url:  # the column has the URL, or its beginning
                url += str(values[part])
            else:
                url += quote(str(values[part]), safe="" if "?" in url else _SAFE_IN_PATHS)
        return {"url": url, **others}
