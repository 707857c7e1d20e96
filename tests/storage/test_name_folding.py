"""What a file system does with names is asked of itself."""

import os
import unicodedata

import pytest

from cfetch.manifest.folding import KEEPS_NAMES, Folding
from cfetch.run import volumes as volumes_module
from cfetch.run.volumes import Volumes
from cfetch.storage import name_folding
from cfetch.storage.directory import Directory
from cfetch.storage.name_folding import probe_folding, read_folding


def fold_as_smb(monkeypatch, fold_case):
    """Let names be looked up as SMB does, or as APFS, which takes a sharp s for ``ss``."""

    def find(directory, name):
        wanted = unicodedata.normalize("NFC", name.replace("\ufe0f", "")).rstrip(". ")
        return fold_case(wanted) in map(fold_case, os.listdir(directory))

    monkeypatch.setattr(name_folding, "_is_there", find)


def test_a_file_system_that_keeps_names_is_known_as_one(tmp_path):
    """The probe leaves nothing behind."""
    volume = Directory(tmp_path)
    before = os.listdir(tmp_path / ".cfetch")
    assert probe_folding(volume) == KEEPS_NAMES
    assert os.listdir(tmp_path / ".cfetch") == before
    volume.close()


@pytest.mark.parametrize(("fold_case", "by_letter"), [(str.lower, True), (str.casefold, False)])
def test_a_file_system_that_changes_names_is_found_out(tmp_path, monkeypatch, fold_case, by_letter):
    """It finds the file under names that it was not given."""
    fold_as_smb(monkeypatch, fold_case)
    volume = Directory(tmp_path)
    before = os.listdir(tmp_path / ".cfetch")
    assert probe_folding(volume) == Folding(". ", ignores=True, case=True, forms=True, by_letter=by_letter)
    assert os.listdir(tmp_path / ".cfetch") == before
    volume.close()


def test_what_a_file_system_folds_is_seen_without_a_new_file(tmp_path, monkeypatch):
    """From the name of the state directory; where there is none, nothing is known."""
    with monkeypatch.context() as patch:
        fold_as_smb(patch, str.casefold)
        assert read_folding(tmp_path) == KEEPS_NAMES
        (tmp_path / ".cfetch").mkdir()
        seen = read_folding(tmp_path)
    assert seen == Folding(". ", ignores=True, case=True, forms=True)
    assert read_folding(tmp_path) == KEEPS_NAMES
    assert os.listdir(tmp_path) == [".cfetch"]


@pytest.mark.parametrize("by_letter", [(True, True), (True, False)])
def test_several_destinations_fold_what_any_of_them_folds(tmp_path, monkeypatch, by_letter):
    """Letter by letter only if all of them do so."""
    answers = {tmp_path / str(n): Folding(case=True, by_letter=each) for n, each in enumerate(by_letter)}
    monkeypatch.setattr(volumes_module, "probe_folding", lambda volume: answers[volume.root])
    volumes = Volumes(list(answers), state=tmp_path / "state", write_timeout_s=60.0)
    assert volumes.find_folding() == Folding(case=True, by_letter=all(by_letter))
    volumes.close()


def test_a_file_system_that_refuses_the_probe_is_taken_to_keep_names(tmp_path, monkeypatch):
    """A full disk is no reason to refuse a list."""
    volume = Directory(tmp_path)

    def refuse(*_, **__):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "open", refuse)
        assert probe_folding(volume) == KEEPS_NAMES
    volume.close()
