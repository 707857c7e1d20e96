"""What every format of a list does alike, told by samples of it and of other texts."""

from collections.abc import Mapping
from io import BytesIO
from types import MappingProxyType
from typing import ClassVar

from cfetch.base.config.reading import ReadingOptions
from cfetch.base.errors import CfetchError, ManifestError
from cfetch.manifest.entry import Entry
from cfetch.manifest.formats.detection import detect_format
from cfetch.manifest.reading import read_entries
from cfetch.manifest.source import Source

BASE_URL = "https://base.test/d/"
STRANGERS = {
    "json": b'{"version": 1, "files": [{"url": "https://h.test/a"}]}',
    "jsonl": b'{"url": "https://h.test/a"}\n{"url": "https://h.test/b"}\n',
    "csv": b"url,size\nhttps://h.test/a,1\nhttps://h.test/b,2\n",
    "urls": b"https://h.test/a\nhttps://h.test/b\n",
}
"""Lists in cfetch's own formats, which stay what they are."""


class FormatContract:
    """Give it ``name``, and ``samples``: documents with the paths of their files, in order.

    ``is_told``: the format is recognised without ``--from-format``. ``foreign``: texts that look alike and
    are no lists of it, with the names of the formats that they are.
    """

    name: ClassVar[str]
    samples: ClassVar[Mapping[bytes, list[str]]]
    is_told: ClassVar[bool] = True
    foreign: ClassVar[Mapping[bytes, str]] = MappingProxyType({})

    def _read(self, data: bytes) -> list[Entry]:
        options = ReadingOptions(from_format=self.name)
        return list(read_entries(BytesIO(data), name="sample", base_url=BASE_URL, options=options))

    def test_samples_have_their_files(self) -> None:
        """Each row has an absolute URL and the path that the sample says."""
        for data, paths in self.samples.items():
            entries = self._read(data)
            assert [entry.path for entry in entries] == paths
            assert all("://" in entry.url.value for entry in entries)

    def test_samples_are_recognised(self) -> None:
        """By the format's own signs, whatever the file is called."""
        for data in self.samples if self.is_told else ():
            assert detect_format(Source(BytesIO(data), "sample")) == self.name

    def test_other_lists_are_not_taken_for_it(self) -> None:
        """A sign that is too weak would change how lists of other people are read."""
        for name, data in (*STRANGERS.items(), *((name, data) for data, name in self.foreign.items())):
            assert detect_format(Source(BytesIO(data), "sample")) == name

    def test_a_cut_or_damaged_list_is_a_fault_and_no_crash(self) -> None:
        """A reader reports what is wrong; any other error would be called a bug in cfetch."""
        for data in self.samples:
            step = max(1, len(data) // 50)
            cut = [data[:end] for end in range(0, len(data), step)]
            torn = [data[:at] + b"\xff\x00" + data[at:] for at in range(0, len(data), step)]
            for damaged in (*cut, *torn):
                try:
                    self._read(damaged)
                except ManifestError:
                    pass
                except CfetchError as error:
                    raise AssertionError(f"{type(error).__name__} and no ManifestError: {error}") from error
