"""Default < file < environment < flag, with the origin of every value, and all faults named at once."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from cfetch.base.config.layers import find_user_file, resolve
from cfetch.base.config.option_table import FORMULA, PRESETS
from cfetch.base.config.settings import GROWN, KINDS, Settings
from cfetch.base.config.shown import show
from cfetch.base.errors import ConfigError


@pytest.fixture
def config(tmp_path):
    """Writes a configuration file and gives its path."""

    def write(text):
        path = tmp_path / "my.yaml"
        path.write_text(text)
        return path

    return write


def test_the_users_own_file_lies_below_every_other_layer_but_the_defaults(config, tmp_path):
    """What it alone states stays, also where another file is named; faults name it."""
    own = tmp_path / "config.yaml"
    own.write_text("padding: 9s\nnetrc: true\n")
    resolved = resolve(flags={}, env={}, file=config("padding: 1s\n"), user_file=own)
    assert (resolved.settings.padding, resolved.settings.netrc) == (1.0, True)
    assert resolved.origins["netrc"] == str(own)
    own.write_text("pading: 9s\n")
    with pytest.raises(ConfigError, match=r"config\.yaml: unknown key 'pading'; did you mean 'padding'"):
        resolve(flags={}, env={}, file=config("padding: 1s\n"), user_file=own)


def test_the_users_own_file_is_where_the_desktop_standard_puts_it(tmp_path):
    """It may be absent; a variable names another one, or none."""
    (tmp_path / ".config" / "cfetch").mkdir(parents=True)
    own = tmp_path / ".config" / "cfetch" / "config.yaml"
    home = {"HOME": str(tmp_path)}
    assert find_user_file(home) is None
    own.write_text("netrc: true\n")
    assert find_user_file(home) == own
    assert find_user_file(home | {"XDG_CONFIG_HOME": str(tmp_path / "other")}) is None
    assert find_user_file(home | {"CFETCH_USER_CONFIG": ""}) is None
    assert find_user_file(home | {"CFETCH_USER_CONFIG": "/x.yaml"}) == Path("/x.yaml")
    assert find_user_file({}) is None
    assert resolve(flags={}, env={"CFETCH_USER_CONFIG": "/x"}).settings == Settings()


@pytest.mark.parametrize(("flags", "env"), [({"concurrency": "16"}, {}), ({}, {"CFETCH_CONCURRENCY": "16"})])
def test_who_gives_a_concurrency_gets_no_more(config, flags, env):
    """Also if it is the default's number; unless a maximum is given too, or it only stands in a file."""
    assert resolve(flags=flags, env=env).settings.most_at_once == 16
    assert resolve(flags=flags | {"max_concurrency": "32"}, env=env).settings.most_at_once == 32
    file = config("concurrency: 16\n")
    assert resolve(flags={}, env={}, file=file).settings.most_at_once == GROWN
    assert resolve(flags=flags, env=env, file=file).settings.most_at_once == 16


def test_without_anything_given_all_is_default():
    """No layer, no change; other programs' variables are not looked at."""
    resolved = resolve(flags={}, env={"PADDING": "9s", "PATH": "/bin"})
    assert resolved.settings == Settings()
    assert set(resolved.origins.values()) == {"default"}
    assert resolved.origins.keys() == KINDS.keys()


def test_each_layer_beats_the_one_before(config):
    """With one value in all layers, taking layers away from the top shows each in turn, and its origin."""
    file = config("padding: 1s\n")
    env = {"CFETCH_PADDING": "2s"}
    flags = {"padding": "3s"}
    seen = [
        resolve(flags=flags, env=env, file=file),
        resolve(flags={}, env=env, file=file),
        resolve(flags={}, env={}, file=file),
        resolve(flags={}, env={}),
    ]
    assert [one.settings.padding for one in seen] == [3, 2, 1, 5]
    assert [one.origins["padding"] for one in seen] == ["--padding", "CFETCH_PADDING", str(file), "default"]


def test_layers_do_not_touch_each_others_keys(config):
    """A flag for one key leaves the file's and the environment's other keys in force."""
    resolved = resolve(
        flags={"max_stragglers": "3"}, env={"CFETCH_QUANTILE": "0.5"}, file=config("multiplier: 2\n")
    )
    settings = resolved.settings
    assert (settings.max_stragglers, settings.quantile, settings.multiplier) == (3, 0.5, 2)
    assert resolved.origins["max_stragglers"] == "--max-stragglers"


def test_unknown_key_names_the_nearest(config):
    """A slip of the finger gets the right word, wherever it stands."""
    with pytest.raises(ConfigError) as caught:
        resolve(flags={}, env={"CFETCH_QUANTIL": "1"}, file=config("max-stragglers: 3\n"))
    said = str(caught.value)
    assert "my.yaml: unknown key 'max-stragglers'; did you mean 'max_stragglers'?" in said
    assert "CFETCH_QUANTIL: unknown key 'quantil'; did you mean 'quantile'?" in said


def test_key_that_resembles_nothing_gets_the_list():
    """Where no word is near, all of them are named."""
    with pytest.raises(ConfigError, match="unknown key 'xyzzy'; known keys: to, base_url, state"):
        resolve(flags={}, env={"CFETCH_XYZZY": "1"})


def test_all_problems_are_told_at_once(config):
    """Faults of file, environment and flags come in one message, a line each."""
    with pytest.raises(ConfigError) as caught:
        resolve(
            flags={"quantile": "2"},
            env={"CFETCH_PADDING": "soon"},
            file=config("concurrency: 0\nnonsense_key: 1\nstate: [a, b]\n"),
        )
    lines = str(caught.value).splitlines()
    assert len(lines) == 5
    assert lines[0].endswith("my.yaml: concurrency is '0' but must be from 1 to 1024")
    assert "state must be a single value" in lines[2]
    assert (
        lines[3]
        == "CFETCH_PADDING: padding is 'soon' but not a duration; write it like 500ms, 30s, 5m or 1h30m"
    )
    assert lines[4] == "--quantile is '2' but must be above 0 and at most 1"


@pytest.mark.parametrize("variable", ["CFETCH_padding", "CFETCH_Padding"])
def test_environment_is_upper_case(variable):
    """A variable that no other machine would set is an error, not a silent no-op."""
    with pytest.raises(ConfigError, match="write it in upper case"):
        resolve(flags={}, env={variable: "1s"})


def test_variable_that_names_the_file_is_no_key():
    """CFETCH_CONFIG belongs to the command line."""
    assert resolve(flags={}, env={"CFETCH_CONFIG": "x.yaml"}).settings == Settings()


def test_control_characters_of_a_value_are_not_printed():
    """An error message cannot move the cursor of the terminal that it is read on."""
    with pytest.raises(ConfigError) as caught:
        resolve(flags={}, env={"CFETCH_PADDING": "\x1b[2J", "CFETCH_\x1b]0;X": "1"})
    assert "\x1b" not in str(caught.value)


ODD = {
    "to": "a dir/with #hash: and 'quotes'\n\x1b[31m",
    "state": "*star",
    "metrics": "- dash.json",
    "statement_host": "https://example.org",
    "concurrency": "7",
    "per_host": "3",
    "multiplier": "1.2345678901",
    "quantile": "0.00001",
    "padding": "0.00001",
    "retry_budget": "1h30m",
    "stall_timeout": "61.0000001",
    "mitigation": "no",
    "sequential_fallback": "yes",
    "log_format": "json",
    "dry_run": "on",
}


def test_shown_configuration_reads_back(config):
    """What --show-config prints, given as --config, means the same values, exactly."""
    resolved = resolve(flags={}, env={f"CFETCH_{key.upper()}": text for key, text in ODD.items()})
    again = resolve(flags={}, env={}, file=config(show(resolved)))
    assert again.settings == resolved.settings
    assert again.settings.padding == 0.00001


@pytest.mark.parametrize(
    ("flags", "text", "shown"),
    [
        ({"log_format": "json"}, "progress: bar", "json"),
        ({"log_format": "text"}, "progress: json", "auto"),
        ({"progress": "auto"}, "log_format: json", "auto"),
        ({"progress": "plain", "log_format": "json"}, "", "plain"),
        ({}, "log_format: json", "json"),
    ],
)
def test_the_nearer_of_two_names_counts(config, flags, text, shown):
    """``log_format`` is an earlier name of ``progress``; a flag of either goes over a file with the other."""
    assert resolve(flags=flags, env={}, file=config(f"{text}\n")).settings.progress_shown == shown
    assert Settings(log_format="json").progress_shown == "json"


def test_shown_defaults_read_back(config):
    """The same without anything set: what has no value is a comment."""
    assert resolve(flags={}, env={}, file=config(show(resolve(flags={}, env={})))).settings == Settings()


def test_origin_of_every_value_is_shown(tmp_path):
    """One line per option, its origin behind it; a strange file name stays on its line."""
    file = tmp_path / "line\nbreak.yaml"
    file.write_text("padding: 1s\n")
    lines = show(resolve(flags={"quantile": "0.5"}, env={"CFETCH_JSON": "true"}, file=file)).splitlines()
    assert [line.removeprefix("# ").split(":")[0] for line in lines] == list(KINDS)
    of = dict(zip(KINDS, lines, strict=True))
    assert of["padding"].startswith("padding: 1s ")
    assert of["padding"].endswith(r"line\nbreak.yaml")
    assert of["quantile"].endswith("  # --quantile")
    assert of["json"].endswith("  # CFETCH_JSON")
    assert of["state"].split() == ["#", "state:", "not", "set", "#", "default"]


def test_refresh_command_is_never_shown(config):
    """It may hold a token: --show-config tells only that there is one, and errors do not quote it."""
    shown = show(resolve(flags={}, env={"CFETCH_REFRESH_COMMAND": "sign --token s3cret"}))
    assert "s3cret" not in shown
    assert "refresh_command: <redacted>" in shown
    with pytest.raises(ConfigError) as caught:
        resolve(flags={}, env={"CFETCH_REFRESH_COMAND": "s3cret"}, file=config("refresh_command: [s3cret]\n"))
    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize(
    ("flags", "env", "text", "to"),
    [
        ({}, {}, "", (".",)),
        ({}, {}, "to: /a\n", ("/a",)),
        ({}, {}, "to: /a, b\n", ("/a, b",)),
        ({}, {}, "to: [/a, 'b,c']\n", ("/a", "b,c")),
        ({}, {}, "to:\n- /a\n- s3://bucket/x\n", ("/a", "s3://bucket/x")),
        ({}, {"CFETCH_TO": "/a, s3://bucket"}, "to: [x, y, z]\n", ("/a", "s3://bucket")),
        ({"to": ["/a"]}, {"CFETCH_TO": "x,y"}, "", ("/a",)),
        ({"to": ["a,b", "c"]}, {}, "", ("a,b", "c")),
    ],
)
def test_destinations_are_a_list(config, flags, env, text, to):
    """A repeated flag, a list or a value in the file, commas in a variable; the last layer has it all."""
    assert resolve(flags=flags, env=env, file=config(text)).settings.to == to


@pytest.mark.parametrize("to", [["/a"], ["/a", "b, c", "s3://bucket/x y", "*d: #"], ["/\x1b[2J", 'e"\\']])
def test_shown_destinations_read_back(config, to):
    """Whatever stands in a name, on one line."""
    resolved = resolve(flags={"to": to}, env={})
    assert len(show(resolved).splitlines()) == len(KINDS)
    assert "\x1b" not in show(resolved)
    assert resolve(flags={}, env={}, file=config(show(resolved))).settings.to == tuple(to)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("to: [/a, [b]]\n", "to must be a single value or a list of them, not a mapping"),
        ("to: {a: b}\n", "to must be a single value or a list of them, not a mapping"),
        ("to: []\n", "to must be one value or a list of them"),
        ("to: [/a, '']\n", "to must name a directory, or an object store like s3://bucket/prefix"),
        ("to: ~/a\n", "to must be a path without ~, which no shell has read here"),
        (
            "to: ftp://h/x\n",
            "to must be a directory, or s3://, gs:// or az:// with bucket/prefix, and without",
        ),
        ("to: s3:///x\n", "to must be a directory, or s3://, gs:// or az:// with bucket/prefix, and without"),
    ],
)
def test_what_is_no_destination(config, text, words):
    """Named by key and place, like any other value."""
    with pytest.raises(ConfigError) as caught:
        resolve(flags={}, env={}, file=config(text))
    assert words in str(caught.value)
    assert "my.yaml: " in str(caught.value)


@pytest.mark.parametrize("url", ["s3://key:s3cret@bucket/x", "s3://bucket/x?sig=s3cret", "az://b/x#s3cret"])
def test_logins_have_no_place_in_a_destination(url):
    """It would be written into metrics and plans: refused, and not repeated."""
    for given in ({"flags": {"to": ["/a", url]}, "env": {}}, {"flags": {}, "env": {"CFETCH_TO": url}}):
        with pytest.raises(ConfigError, match="logins come from the environment") as caught:
            resolve(**given)
        assert "s3cret" not in str(caught.value)
    with pytest.raises(ConfigError) as caught:
        Settings(to=(url,))
    assert "s3cret" not in str(caught.value)


def test_an_error_repeats_no_url():
    """What should be a host may be a URL with a password."""
    with pytest.raises(ConfigError, match="must be a host or https") as caught:
        resolve(flags={"statement_host": "https://me:s3cret@h.test"}, env={})
    assert "s3cret" not in str(caught.value)


def test_a_login_in_place_of_a_host_is_not_quoted():
    """Nor anything else with an @ in it."""
    with pytest.raises(ConfigError, match="header_host") as raised:
        resolve(flags={}, env={"CFETCH_HEADER_HOST": "me:s3cret@h/"})
    assert "s3cret" not in str(raised.value)


@pytest.mark.parametrize("name", FORMULA)
def test_an_option_of_the_formula_chooses_it(name, tmp_path):
    """It would have no effect otherwise; whoever names a policy gets that one."""
    flags = {name: KINDS[name].show(getattr(Settings(), name))}
    assert resolve(flags={}, env={}).settings.policy == "adaptive"
    chosen = resolve(flags=flags, env={})
    assert chosen.settings.policy == "cloudfetch"
    assert chosen.origins["policy"] == chosen.origins[name]
    assert resolve(flags={**flags, "policy": "adaptive"}, env={}).settings.policy == "adaptive"
    assert resolve(flags={"multiplier": "2"}, env={}).settings.policy == "adaptive"


def test_a_policy_that_an_option_has_chosen_is_noted(config):
    """The note names the option, where it was given, and how to decide; no note where a policy is named."""
    file = config("padding: 1s\n")
    for given, where in (
        (resolve(flags={"padding": "1s"}, env={}), "--padding"),
        (resolve(flags={}, env={"CFETCH_PADDING": "1s"}), "CFETCH_PADDING"),
        (resolve(flags={}, env={}, file=file), str(file)),
    ):
        (note,) = given.notes
        assert note == (
            f"policy cloudfetch instead of adaptive, because only its formula reads padding ({where}); "
            "name a policy to decide it yourself"
        )
    for policy in ("cloudfetch", "adaptive"):
        named = config(f"policy: {policy}\npadding: 1s\n")
        assert resolve(flags={}, env={}, file=named).notes == ()
    assert resolve(flags={"padding": "1s", "mitigation": "false"}, env={}).notes == ()
    assert resolve(flags={"multiplier": "2"}, env={}).notes == ()


def test_an_option_that_the_named_policy_does_not_read_is_noted(config):
    """Somebody who gives it for one run expects an effect; a file may keep it for another day."""
    file = config("policy: adaptive\nquantile: 0.5\n")
    flags = {"padding": "1s"}
    (note,) = resolve(flags=flags, env={"CFETCH_MAX_STRAGGLERS": "3"}, file=file).notes
    assert note == (
        f"policy adaptive ({file}) does not read padding (--padding), max_stragglers (CFETCH_MAX_STRAGGLERS)"
    )
    (note,) = resolve(flags={**flags, "policy": "adaptive"}, env={}).notes
    assert note == "policy adaptive (--policy) does not read padding (--padding)"


DRIVERS = "adbc.databricks.cloudfetch."
PROPERTIES = {
    "straggler_mitigation_enabled": ("true", "mitigation", True),
    "straggler_multiplier": ("2.5", "multiplier", 2.5),
    "straggler_quantile": ("0.7", "quantile", 0.7),
    "straggler_padding_seconds": ("3", "padding", 3.0),
    "max_stragglers_per_query": ("4", "max_stragglers", 4),
    "synchronous_fallback_enabled": ("true", "sequential_fallback", True),
}


def in_shell(name):
    """A shell cannot export a name with dots."""
    return name.upper().replace(".", "_")


@pytest.mark.parametrize("where", ["file", "environment", "shell"])
def test_the_six_names_of_the_drivers_are_read(where, config):
    """All of them give their value, and with them comes the formula that they are for."""
    given = {DRIVERS + name: text for name, (text, *_) in PROPERTIES.items()}
    if where == "file":
        file = config("".join(f"{name}: {text}\n" for name, text in given.items()))
        resolved = resolve(flags={}, env={}, file=file)
    else:
        spelled = in_shell if where == "shell" else str
        resolved = resolve(flags={}, env={spelled(name): text for name, text in given.items()})
    wanted = {option: value for _, option, value in PROPERTIES.values()}
    assert {option: getattr(resolved.settings, option) for option in wanted} == wanted
    assert resolved.settings.policy == "cloudfetch"
    spelled_out = file if where == "file" else spelled(f"{DRIVERS}straggler_multiplier")
    assert resolved.origins["multiplier"] == f"{spelled_out}, {DRIVERS}*"


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        (f"{DRIVERS}stragler_multiplier", f"{DRIVERS}straggler_multiplier"),
        (f"{DRIVERS}straggler_quantil", f"{DRIVERS}straggler_quantile"),
        (f"{DRIVERS}synchronous_falback_enabled", f"{DRIVERS}synchronous_fallback_enabled"),
        (in_shell(f"{DRIVERS}max_stragglers"), in_shell(f"{DRIVERS}max_stragglers_per_query")),
        (in_shell(f"{DRIVERS}straggler_padding").lower(), in_shell(f"{DRIVERS}straggler_padding_seconds")),
    ],
)
def test_a_misspelt_name_of_the_drivers_is_refused(written, meant, config):
    """In the environment as in a file; an option of the drivers that is none of the six is not cfetch's."""
    with pytest.raises(ConfigError, match=re.escape(f"{written!r} is unknown; did you mean {meant!r}")):
        resolve(flags={}, env={written: "2"})
    if written.startswith(DRIVERS):
        with pytest.raises(ConfigError, match=re.escape(f"{written!r}; did you mean {meant!r}")):
            resolve(flags={}, env={}, file=config(f"{written}: 2\n"))
    others = {f"{DRIVERS}parallel_downloads": "3", in_shell(f"{DRIVERS}enabled"): "true", "ADBC": "1"}
    assert resolve(flags={}, env=others).settings == Settings()
    with pytest.raises(ConfigError, match="known names of the drivers: "):
        resolve(flags={}, env={}, file=config(f"{DRIVERS}parallel_downloads: 3\n"))


def test_the_drivers_names_are_off_until_they_are_enabled(config):
    """As in the drivers: then none of the others is read; the run says why nothing is mitigated."""
    file = config(f"{DRIVERS}straggler_multiplier: 2\n")
    resolved = resolve(flags={}, env={}, file=file)
    assert (resolved.settings.mitigation, resolved.settings.multiplier) == (False, 1.5)
    (note,) = resolved.notes
    assert note.startswith(
        f"mitigation is off, as in the drivers, because {DRIVERS}straggler_mitigation_enabled"
    )
    assert str(file) in note


def test_upper_layers_win_over_the_drivers_names(config):
    """File, environment, flag; cfetch's own name of the same option beside it is one too many."""
    enabled = f"{DRIVERS}straggler_mitigation_enabled"
    file = config(f"{enabled}: true\n{DRIVERS}straggler_multiplier: 2\n")
    assert resolve(flags={}, env={}, file=file).settings.multiplier == 2
    env = {enabled: "true", f"{DRIVERS}straggler_multiplier": "3"}
    assert resolve(flags={}, env=env, file=file).settings.multiplier == 3
    assert resolve(flags={"multiplier": "4"}, env=env, file=file).settings.multiplier == 4
    named = resolve(flags={"policy": "adaptive"}, env=env, file=file)
    assert (named.settings.policy, named.settings.multiplier) == ("adaptive", 3)
    with pytest.raises(ConfigError, match="multiplier and its name of the drivers stand side by side"):
        resolve(flags={}, env={**env, "CFETCH_MULTIPLIER": "4"})


def test_a_wrong_value_of_the_drivers_names_is_refused(config):
    """Unlike in the drivers, which quietly take their default; a name that is none of the six is unknown."""
    file = config(f"{DRIVERS}straggler_mitigation_enabled: true\n{DRIVERS}straggler_quantile: 60%\n")
    with pytest.raises(ConfigError, match=rf"{DRIVERS}straggler_quantile is '60%'; it must be") as caught:
        resolve(flags={}, env={}, file=file)
    assert str(file) in str(caught.value)
    with pytest.raises(ConfigError, match="unknown key"):
        resolve(flags={}, env={}, file=config(f"{DRIVERS}max_retries: 3\n"))


def test_a_policy_that_the_drivers_names_have_chosen_is_noted():
    """Also where the one that is given is an option of both policies."""
    env = {f"{DRIVERS}straggler_mitigation_enabled": "true", f"{DRIVERS}straggler_multiplier": "3"}
    (note,) = resolve(flags={}, env=env).notes
    assert note.startswith(
        "policy cloudfetch instead of adaptive, because mitigation has its name of the drivers"
    )


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_is_the_file_of_that_name_below_all_that_is_given(name, config):
    """Wherever the preset is named; each value says that it comes from there."""
    file = Path(__file__).parents[3] / "configs" / f"{name}.yaml"
    wanted = resolve(flags={}, env={}, file=file).settings
    for resolved in (
        resolve(flags={"preset": name}, env={}),
        resolve(flags={}, env={"CFETCH_PRESET": name}),
        resolve(flags={}, env={}, file=config(f"preset: {name}\n")),
    ):
        assert replace(resolved.settings, preset="none") == wanted
        assert resolved.origins["max_attempts"] == f"preset {name}"
        assert resolved.settings.policy == "adaptive"
    given = resolve(flags={"preset": name}, env={}, file=config("max_attempts: 2\n"))
    assert given.settings.max_attempts == 2


def test_the_uppermost_preset_is_the_one(config):
    """A flag over a file; none over one; and an unknown one is refused."""
    file = config("preset: aws-s3\n")
    assert resolve(flags={"preset": "none"}, env={}, file=file).settings == Settings()
    assert resolve(flags={"preset": "gcs"}, env={}, file=file).settings.max_attempts == 15
    with pytest.raises(ConfigError, match="preset is 's3' but must be one of none, aws-s3, azure-blob, gcs"):
        resolve(flags={"preset": "s3"}, env={})
