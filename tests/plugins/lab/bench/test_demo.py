"""The demo's choice of files."""

import subprocess
import sys
from pathlib import Path

import pytest

from cfetch.manifest.entry import safe_path
from cfetch.manifest.folding import collision_key
from cfetch.plugins.lab.bench import demo


def test_it_finds_real_files_within_its_limits(monkeypatch, tmp_path):
    """Some small and large regular files, safe names, none twice, never more than asked for."""
    root = tmp_path / "root"
    root.mkdir()
    for index in range(40):
        (root / f"small{index}").write_bytes(b"x" * 2000)
    for index in range(20):
        (root / f"large{index}").write_bytes(b"x" * (300 << 10))
    (root / "README").write_bytes(b"x" * 2000)
    (root / "readme").write_bytes(b"x" * 2000)
    (root / "tiny").write_bytes(b"x")
    (root / "bad\nname").write_bytes(b"x" * 2000)
    (root / "link").symlink_to(root / "small1")
    monkeypatch.setattr(demo, "ROOTS", (root, Path("/nonexistent")))
    monkeypatch.setattr(demo, "MAX_FILES", 30)
    picked = demo.pick_files()
    assert len(picked) == 30
    assert sum(name.startswith("root/large") for name in picked) == 15
    assert not {"root/tiny", "root/link", "root/bad\nname"} & set(picked)
    assert len({collision_key(name) for name in picked}) == 30
    assert all(safe_path(name) and path.is_file() for name, path in picked.items())


def test_its_faults_hit_large_files_only_and_need_few():
    """Eight stragglers among many large files, and no crash where there are hardly any."""
    sizes = {f"l{i}": 1 << 20 for i in range(100)} | {f"s{i}": 2000 for i in range(100)}
    drawn = demo._draw_faults(sizes)
    assert all(name.startswith("l") for name in drawn)
    assert sum(script[0].kind == "slow" for script in drawn.values()) == 8
    assert demo._draw_faults({"only": 1 << 20}) == {}


@pytest.fixture
def folder(tmp_path):
    """A demo's folder at a place that a shell must be told carefully."""
    place = tmp_path / "a b$c"
    place.mkdir()
    (place / "manifest.json").write_text('{"url": "http://127.0.0.1:1/a", "path": "a", "size": 1}')
    return place


def test_after_an_interrupt_only_what_works_is_offered(folder):
    """No second download, for the server has gone, and no report without metrics."""
    text = "\n".join(demo.epilogue_lines(folder, 130))
    assert "nothing left to fetch" not in text
    assert " report " not in text
    assert " download " not in text
    assert "run it again" in text
    assert "manifest.json." in text


def test_the_commands_it_offers_work_as_they_are_printed(folder):
    """Pasted into a shell, with a folder whose name needs quoting."""
    (folder / "files").mkdir()
    (folder / "files/a").write_text("a")
    (folder / "metrics.jsonl").write_text(
        '{"schema":"cfetch.run/1","instant":"i","wall_start":"w","version":"0","host":"h","settings":{}}\n'
    )
    commands = [
        line for line in demo.epilogue_lines(folder, 0) if line.startswith("  ") and "bench" not in line
    ]
    assert [word for line in commands for word in ("report", "download", "rm") if f" {word} " in line] == [
        "report",
        "download",
        "rm",
    ]
    for command in commands:
        subprocess.run(command, shell=True, check=True, capture_output=True, cwd=Path(__file__).parents[4])
    assert not folder.exists()


def test_an_interrupt_before_the_download_leaves_nothing(tmp_path, monkeypatch):
    """No traceback and no folder."""

    def interrupted():
        raise KeyboardInterrupt

    monkeypatch.setattr(demo, "pick_files", interrupted)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert demo.main() == 130
    assert list(tmp_path.iterdir()) == []


def test_a_command_on_the_path_is_offered_by_its_name(folder, monkeypatch):
    """The whole path of an environment says nothing to a reader; one that is elsewhere is named whole."""
    own = str(Path(sys.executable).with_name("cfetch"))
    for there, begin in ((own, "  cfetch bench"), (None, "  /")):
        monkeypatch.setattr("shutil.which", lambda _, there=there: there)
        (line,) = [line for line in demo.epilogue_lines(folder, 0) if " bench " in line]
        assert line.startswith(begin)
