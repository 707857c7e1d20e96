"""A list from a stream needs no directory for temporary files."""

import tempfile

from cfetch.manifest.spool import open_spool


def test_a_list_is_kept_where_no_directory_takes_a_file(monkeypatch, tmp_path):
    """As in a container whose root is read-only."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "none"))
    with open_spool() as file:
        file.write(b"http://h/a\n")
        file.seek(0)
        assert file.read() == b"http://h/a\n"
        assert list(tmp_path.iterdir()) == []
