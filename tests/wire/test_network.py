"""How servers are reached, as far as it is settled before the first request: proxy, logins, certificates."""

import base64
import ssl
import subprocess
from typing import Any

import pytest
import trustme
from hypothesis import given
from hypothesis import strategies as st

from cfetch.app.download import prepare
from cfetch.base.config.layers import resolve
from cfetch.base.config.settings import Settings
from cfetch.base.config.shown import show
from cfetch.base.config.wire import NetworkOptions
from cfetch.base.errors import ConfigError
from cfetch.base.secret import SecretUrl
from cfetch.wire.network import DIRECT, make_network
from cfetch.wire.targets import is_public

CANARY = "CANARY0123456789"
PROXY = f"http://user:{CANARY}@proxy.test:3128"


def proxy_of(url, env=(), **settings):
    found = make_network(NetworkOptions(**settings), dict(env)).proxy_for(SecretUrl(url))
    return None if found is None else found.reveal()


ENV = {
    "http_proxy": "http://h.test:1",
    "HTTPS_PROXY": "s.test:2",
    "NO_PROXY": "inner.test, 10.0.0.1,x.test:81",
}


def test_c63_without_a_setting_the_environment_says_nothing():
    """A proxy sees every signed link; nobody gets one by accident, and no login is read."""
    assert make_network(NetworkOptions(), ENV | {"NETRC": "/nowhere"}) == DIRECT
    assert proxy_of("http://a.test/", ENV) is None


@pytest.mark.parametrize(
    ("url", "proxy"),
    [
        ("http://a.test/", "http://h.test:1"),
        ("https://a.test/", "http://s.test:2"),
        ("http://inner.test/", None),
        ("https://deep.inner.test:8443/", None),
        ("http://dinner.test/", "http://h.test:1"),
        ("http://10.0.0.1:80/", None),
        ("http://x.test:81/", None),
        ("http://x.test/", "http://h.test:1"),
    ],
)
def test_c63_the_environment_where_it_is_asked_for(url, proxy):
    """By scheme, less the hosts of NO_PROXY, with the port where it states one."""
    assert proxy_of(url, ENV, proxy_from_env=True) == proxy


@pytest.mark.parametrize(
    ("entry", "url", "is_direct"),
    [
        ("10.0.0.0/8", "http://10.1.2.3/", True),
        ("10.0.0.0/8", "http://11.0.0.1/", False),
        ("10.0.0.0/8", "http://[::ffff:10.1.2.3]/", True),
        ("10.0.0.0/8", "http://10.test/", False),
        ("fd00::/8", "http://[fd12::1]:8080/", True),
        ("[::1]", "http://[::1]:8080/", True),
        ("::1", "http://[::1]/", True),
        ("[::1]:81", "http://[::1]:82/", False),
        ("[::1]:81", "http://[::1]:81/", True),
        ("a.test.", "http://a.test/", True),
        ("a.test", "http://b.a.test./", True),
        ("*.a.test", "http://b.a.test/", True),
        (".a.test", "http://ba.test/", False),
        ("a.test:80", "http://a.test/", True),
        ("x a.test", "http://a.test/", True),
        ("1.2.3.4/99", "http://1.2.3.4/", False),
    ],
)
def test_no_proxy_names_networks_addresses_of_ipv6_and_names_with_a_final_dot(entry, url, is_direct):
    """An entry of NO_PROXY may be a network, an address of IPv6, or a name that ends in a dot."""
    env = {"http_proxy": "http://h.test:1", "no_proxy": f"other.test,{entry}"}
    assert (proxy_of(url, env, proxy_from_env=True) is None) == is_direct


def test_c63_no_proxy_star_and_lower_case():
    """``*`` means no proxy at all; the lower-case name wins over the other, as for curl."""
    assert proxy_of("http://a.test/", ENV | {"no_proxy": "*"}, proxy_from_env=True) is None
    both = {"http_proxy": "http://low.test:1", "HTTP_PROXY": "http://up.test:1"}
    assert proxy_of("http://a.test/", both, proxy_from_env=True) == "http://low.test:1"
    every = {"ALL_PROXY": "socks5h://all.test:1", "https_proxy": "http://s.test:2"}
    assert proxy_of("http://a.test/", every, proxy_from_env=True) == "socks5h://all.test:1"
    assert proxy_of("https://a.test/", every, proxy_from_env=True) == "http://s.test:2"
    cgi = {"HTTP_PROXY": "http://attacker.test", "REQUEST_METHOD": "GET"}
    assert proxy_of("http://a.test/", cgi, proxy_from_env=True) is None


def test_a_lower_case_variable_that_is_empty_names_nothing():
    """An image or a job sets it so to have no proxy, whatever the upper-case one says."""
    for name in ("HTTP_PROXY", "ALL_PROXY"):
        env = {"http_proxy": "", name: "http://up.test:1"}
        assert proxy_of("http://a.test/", env, proxy_from_env=True) is None
    env = {"http_proxy": "http://low.test:1", "no_proxy": "", "NO_PROXY": "*"}
    assert "low.test" in proxy_of("http://a.test/", env, proxy_from_env=True)


def test_the_environment_names_hosts_without_the_stated_proxy_if_it_may():
    """NO_PROXY alone is read of it then, as curl does; without the setting nothing is."""
    env = ENV | {"NO_PROXY": "a.test"}
    for url, proxy in (("http://a.test/", None), ("http://b.test/", PROXY)):
        assert proxy_of(url, env, proxy=PROXY, proxy_from_env=True) == proxy
        assert proxy_of(url, env, proxy=PROXY) == PROXY


def test_c63_the_flag_is_for_all_requests():
    """NO_PROXY belongs to the environment, which was not asked for."""
    assert proxy_of("http://inner.test/", ENV, proxy=PROXY) == PROXY
    assert proxy_of("https://a.test/", ENV, proxy=PROXY) == PROXY


@pytest.mark.parametrize(
    "text",
    ["proxy.test:3128", "socks9://h", "http:///", "http://h:99999", "http://h:0", "http://h/path", "http://h?x",
     "http://h test", "http://h\x1b[31m", "", "http://[::1"],
)  # fmt: skip
def test_c63_what_is_no_proxy_is_refused_without_quoting_it(text):
    """The value may be a password that slipped into the wrong place."""
    with pytest.raises(ConfigError) as caught:
        resolve(flags={"proxy": text + CANARY if text else ""}, env={})
    assert str(caught.value).startswith("--proxy must be a ")
    assert CANARY not in str(caught.value)
    if text:
        with pytest.raises(
            ConfigError, match="environment variable http_proxy, which proxy_from_env"
        ) as caught:
            make_network(NetworkOptions(proxy_from_env=True), {"http_proxy": f"socks9://{CANARY}@h"})
        assert CANARY not in str(caught.value)


def test_c63_a_proxys_password_is_shown_nowhere():
    """Neither by --show-config, nor in the run header, nor by the network's own repr."""
    resolved = resolve(flags={}, env={"CFETCH_PROXY": PROXY})
    assert resolved.settings.proxy == PROXY
    assert "# proxy: <redacted>" in show(resolved)
    assert resolved.settings.public()["proxy"] == "<redacted>"
    assert CANARY not in show(resolved) + repr(resolved.settings.public())
    assert CANARY not in repr(make_network(resolved.settings.network, {}))


def test_refresh_command_that_cannot_be_read_is_not_quoted():
    """It is as secret as a proxy's URL."""
    with pytest.raises(ConfigError) as caught:
        resolve(flags={}, env={"CFETCH_REFRESH_COMMAND": f"sign 'x {CANARY}"})
    assert CANARY not in str(caught.value)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"proxy": PROXY, "public_only": True}, "public_only and proxy are both set; a proxy looks names up"),
        ({"proxy_from_env": True, "public_only": True}, "public_only and proxy_from_env are both set"),
        ({"client_key": "k.pem"}, "client_key is set without client_cert"),
    ],
)
def test_settings_that_contradict_each_other(settings, words):
    """Named, before anything is asked for, and without the password."""
    with pytest.raises(ConfigError, match=words) as caught:
        make_network(NetworkOptions(**settings), {})
    assert CANARY not in str(caught.value)


# --- netrc


NETRC = f"""\
machine a.test login me password {CANARY}
machine B.Test login you password p:w%
default login anonymous password {CANARY}
"""


def netrc_file(tmp_path, text=NETRC, mode=0o600):
    path = tmp_path / "netrc"
    path.write_text(text)
    path.chmod(mode)
    return {"NETRC": str(path)}


def login_of(network, url):
    found = network.login_for(SecretUrl(url))
    return None if found is None else base64.b64decode(found.removeprefix("Basic ")).decode()


def test_netrc_names_hosts_and_its_default_is_nobodys(tmp_path):
    """A default login would go to any host that a manifest names (curl CVE-2024-11053)."""
    network = make_network(NetworkOptions(netrc=True), netrc_file(tmp_path))
    assert login_of(network, "https://a.test:8443/x") == f"me:{CANARY}"
    assert login_of(network, "https://b.TEST/x") == "you:p:w%"
    for other in (
        "https://default/",
        "https://c.test/",
        "https://a.test.evil.test/",
        "https://evil.test/a.test",
        "https://xa.test/",
    ):
        assert login_of(network, other) is None
    assert CANARY not in repr(network)


@pytest.mark.parametrize(
    ("text", "login"),
    [
        ("# a comment\nmachine a.test # another\nlogin me\n  password p", "me:p"),
        ("machine a.test login me password #p", "me:#p"),
        ("machine a.test login me password p#q", "me:p#q"),
        ('machine a.test login "a b" password "q\\"\\\\\\t#"', 'a b:q"\\\t#'),
        ("machine a.test login DOM\\me password p\\n", "DOM\\me:p\\n"),
        ("machine a.test port 8080 login me account x password p", "me:p"),
        ("macdef init\nmachine a.test login no password no\n\nmachine a.test login me password p", "me:p"),
        ("machine a.test login me password p\nmachine a.test login you password q", "me:p"),
        ("machine a.test. login me password p\r\n", "me:p"),
        ("machine a.test login me password login", "me:login"),
    ],
)
def test_netrc_is_read_as_curl_reads_it(tmp_path, text, login):
    """Comments, quotes with escapes, words of other programs and macros are understood."""
    network = make_network(NetworkOptions(netrc=True), netrc_file(tmp_path, text))
    assert login_of(network, "https://a.test/") == login


def test_netrc_at_home(tmp_path, monkeypatch):
    """Where NETRC names no file."""
    monkeypatch.setenv("HOME", str(tmp_path))
    netrc_file(tmp_path)
    (tmp_path / "netrc").rename(tmp_path / ".netrc")
    assert login_of(make_network(NetworkOptions(netrc=True), {}), "http://a.test/") == f"me:{CANARY}"


@pytest.mark.parametrize("mode", [0o604, 0o640, 0o620, 0o602])
def test_netrc_that_others_can_read_or_change_is_refused(tmp_path, mode):
    """As ftp(1) does."""
    env = netrc_file(tmp_path, mode=mode)
    with pytest.raises(ConfigError, match="chmod 600"):
        make_network(NetworkOptions(netrc=True), env)
    assert make_network(NetworkOptions(), env) == DIRECT


@pytest.mark.parametrize("text", [f"machine a.test login me pasword {CANARY}", f"{CANARY}", "machine"])
def test_netrc_with_faults_names_the_line_and_quotes_nothing(tmp_path, text):
    """The word that is wrong may be the password."""
    with pytest.raises(ConfigError, match=r"netrc:\d+: ") as caught:
        make_network(NetworkOptions(netrc=True), netrc_file(tmp_path, text))
    assert CANARY not in str(caught.value)


def test_netrc_that_is_no_text(tmp_path):
    """A key file under the wrong name, say."""
    env = netrc_file(tmp_path)
    (tmp_path / "netrc").write_bytes(b"machine a.test login \xff\xfe\x80 password x")
    with pytest.raises(ConfigError, match="is not text"):
        make_network(NetworkOptions(netrc=True), env)


def test_netrc_that_is_not_there(tmp_path):
    """Whoever asks for it wants it read."""
    with pytest.raises(ConfigError, match=r"netrc is on, but .*: No such file"):
        make_network(NetworkOptions(netrc=True), {"NETRC": str(tmp_path / "none")})


# --- certificates


@pytest.fixture(scope="module")
def pems(tmp_path_factory):
    """A CA, a certificate with its key, another key, and an encrypted one, as files."""
    folder = tmp_path_factory.mktemp("pems")
    authority = trustme.CA()
    authority.cert_pem.write_to_path(folder / "ca.pem")
    for name in ("mine", "other"):
        made = authority.issue_cert(f"{name}.test")
        made.private_key_pem.write_to_path(folder / f"{name}.key")
        made.cert_chain_pems[0].write_to_path(folder / f"{name}.crt")
        made.private_key_and_cert_chain_pem.write_to_path(folder / f"{name}.both")
    command = ["openssl", "pkey", "-aes256", "-passout", "pass:x", "-in", "mine.key", "-out", "locked.key"]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    (folder / "empty").write_bytes(b"")
    (folder / "text").write_bytes(b"hello")
    (folder / "folder").mkdir()
    return folder


def with_files(pems, **names):
    given: dict[str, Any] = {key: str(pems / name) for key, name in names.items()}
    return NetworkOptions(**given)


def test_c62_a_ca_file_stands_instead_of_the_systems(pems):
    """As with curl: only what it holds is trusted, and host names are checked as ever."""
    context = make_network(with_files(pems, ca_file="ca.pem"), {}).tls
    assert context is not None
    assert len(context.get_ca_certs()) == 1
    assert (context.verify_mode, context.check_hostname) == (ssl.CERT_REQUIRED, True)
    assert context.minimum_version == ssl.TLSVersion.TLSv1_2


def test_c62_without_files_the_librarys_context_is_as_strict():
    """The one that aiohttp made: it must check as much as ours."""
    from aiohttp.connector import _SSL_CONTEXT_VERIFIED

    assert make_network(NetworkOptions(), {}).tls is None
    assert (_SSL_CONTEXT_VERIFIED.verify_mode, _SSL_CONTEXT_VERIFIED.check_hostname) == (
        ssl.CERT_REQUIRED,
        True,
    )
    assert _SSL_CONTEXT_VERIFIED.minimum_version >= ssl.TLSVersion.TLSv1_2


@pytest.mark.parametrize("names", [
    {"client_cert": "mine.both"}, {"client_cert": "mine.crt", "client_key": "mine.key"},
    {"client_cert": "mine.both", "ca_file": "ca.pem"},
])  # fmt: skip
def test_a_client_certificate_keeps_verification_on(pems, names):
    """In one file or two; without a CA file the system's CAs stay."""
    context = make_network(with_files(pems, **names), {}).tls
    assert context is not None
    assert (context.verify_mode, context.check_hostname) == (ssl.CERT_REQUIRED, True)
    assert context.minimum_version == ssl.TLSVersion.TLSv1_2


@pytest.mark.parametrize(("names", "words"), [
    ({"ca_file": "none"}, r"ca_file is .*none, which cannot be read: No such file"),
    ({"ca_file": "folder"}, r"ca_file is .*folder, which cannot be read: Is a directory"),
    ({"ca_file": "text"}, r"ca_file is .*text, which holds no PEM certificate"),
    ({"ca_file": "empty"}, r"ca_file is .*empty, which holds no PEM certificate"),
    ({"client_cert": "none"}, r"client_cert is .*none, which cannot be read"),
    ({"client_cert": "mine.crt", "client_key": "none"}, r"client_key is .*none, which cannot be read"),
    ({"client_cert": "mine.crt"}, r"client_cert is .*mine.crt: no PEM certificate and key"),
    ({"client_cert": "text", "client_key": "mine.key"}, r"client_cert is .*text, client_key is .*: no PEM"),
    ({"client_cert": "mine.crt", "client_key": "other.key"}, r"client_key is .*, which is not the key of"),
    ({"client_cert": "mine.crt", "client_key": "locked.key"}, r"client_key is .*, whose key is encrypted"),
])  # fmt: skip
def test_c62_a_file_that_will_not_do_is_named_with_its_key(pems, names, words):
    """Before the first request, and nobody is asked for a password in the middle of a night's job."""
    with pytest.raises(ConfigError, match=words):
        make_network(with_files(pems, **names), {})


def test_a_download_looks_at_all_of_it_before_it_begins(tmp_path):
    """Also for a dry run, and before the manifest is read."""
    settings = Settings(to=(str(tmp_path / "to"),), ca_file=str(tmp_path / "none"))
    with pytest.raises(ConfigError, match="ca_file"), prepare("http://127.0.0.1:1/m", settings, env={}):
        pass
    assert not (tmp_path / "to").exists()


# --- addresses


@pytest.mark.parametrize("address", [
    "127.0.0.1", "127.9.9.9", "0.0.0.0", "10.1.2.3", "172.16.0.1", "172.31.255.255", "192.168.0.1",
    "169.254.169.254", "100.64.0.1", "100.100.100.200", "192.0.0.8", "192.0.0.192", "198.18.0.1",
    "192.0.2.1", "224.0.0.1", "240.0.0.1", "255.255.255.255", "::", "::1", "fe80::1", "fe80::1%lo",
    "fec0::1", "fc00::1", "fd00:ec2::254", "ff02::1", "::ffff:127.0.0.1", "::ffff:10.0.0.1",
    "::ffff:a9fe:a9fe", "::127.0.0.1", "64:ff9b::7f00:1", "64:ff9b::10.0.0.1", "64:ff9b:1::1",
    "2002:7f00:1::", "2002:a00:1::1", "2001::1", "2001:db8::1", "3fff::1", "100::1", "5f00::1",
    "4000::1", "localhost", "", "127.1", "2130706433", "0x7f.0.0.1",
])  # fmt: skip
def test_c58_addresses_that_are_not_public(address):
    """Those of this machine, its networks, the clouds' metadata, and each of them in IPv6's wrappings."""
    assert not is_public(address)


@pytest.mark.parametrize("address", [
    "8.8.8.8", "1.1.1.1", "172.15.0.1", "172.32.0.1", "100.63.255.255", "100.128.0.1", "2606:4700::1111",
    "2a00:1450:4001::200e", "::ffff:8.8.8.8", "64:ff9b::8.8.8.8", "2002:808:808::1",
])  # fmt: skip
def test_c58_addresses_that_are(address):
    """Just outside the private ranges, and public ones in IPv6's wrappings."""
    assert is_public(address)


@given(st.ip_addresses(v=4))
def test_c58_wrapping_changes_nothing(address):
    """An IPv4 address is as public as its forms in IPv6."""
    number = int(address)
    wrapped = [f"::ffff:{address}", f"64:ff9b::{address}", f"2002:{number >> 16:x}:{number & 0xFFFF:x}::1"]
    assert {is_public(one) for one in wrapped} == {is_public(str(address))}
