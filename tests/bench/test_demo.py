"""The demo's choice of files."""

from pathlib import Path

from cfetch.bench import demo
from cfetch.manifest.entry import collision_key, safe_path


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
    drawn = demo._faults(sizes)
    assert all(name.startswith("l") for name in drawn)
    assert sum(script[0].kind == "slow" for script in drawn.values()) == 8
    assert demo._faults({"only": 1 << 20}) == {}
