"""Logins that the vendors' own tools keep, against stand-ins for these tools and their services."""

import hashlib
import json
import os
import socket
import sys
import threading
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from urllib.parse import parse_qs, urlsplit

import pytest

from cfetch.base.errors import Refused, UsageError
from cfetch.base.secret import SecretUrl
from cfetch.storage.buckets.logins import find_login, find_own_refusal
from cfetch.storage.buckets.object_source import ObjectLinks
from cfetch.wire.network import DIRECT
from cfetch.wire.transport import RunTransport
from tests.wire.raw_server import RawServer, reply


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A home directory, and an environment without any login."""
    for name in os.environ:
        if name.startswith(("AWS_", "AZURE_", "GOOGLE_", "CLOUDSDK_", "GCE_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    return tmp_path


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


async def sign(url):
    link = await ObjectLinks().sign(SecretUrl(url), "GET")
    return parse_qs(urlsplit(link.reveal()).query)["X-Amz-Credential"][0].split("/")


async def test_a_profile_gives_its_login_and_its_region(home, monkeypatch):
    """AWS_PROFILE names a profile of ~/.aws, whose program (credential_process) prints the login."""
    answer = json.dumps({"Version": 1, "AccessKeyId": "AKIDWORK", "SecretAccessKey": "CANARY"})
    write(home / "answer.json", answer)
    program = f"{sys.executable} -c \"print(open('{home}/answer.json').read())\""
    write(home / ".aws/config", f"[profile work]\nregion = eu-north-1\ncredential_process = {program}\n")
    monkeypatch.setenv("AWS_PROFILE", "work")
    key, _, region, *_ = await sign("s3://bucket/a")
    assert (key, region) == ("AKIDWORK", "eu-north-1")


class Sts(BaseHTTPRequestHandler):
    """Answers AssumeRole."""

    def do_POST(self):
        role = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())["RoleArn"][0]
        body = (
            "<AssumeRoleResponse><AssumeRoleResult><Credentials><AccessKeyId>ASIA-"
            f"{role[-1]}</AccessKeyId><SecretAccessKey>s</SecretAccessKey><SessionToken>t</SessionToken>"
            "<Expiration>2099-01-01T00:00:00Z</Expiration></Credentials></AssumeRoleResult></AssumeRoleResponse>"
        ).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        """Nothing is printed."""


async def test_a_profile_may_assume_a_role(home, monkeypatch):
    """The role's temporary login signs, and not that of its source profile."""
    with HTTPServer(("127.0.0.1", 0), Sts) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        write(home / ".aws/credentials", "[base]\naws_access_key_id = AKIDBASE\naws_secret_access_key = s\n")
        role = "role_arn = arn:aws:iam::123456789012:role/r\nsource_profile = base\nregion = us-east-1\n"
        write(home / ".aws/config", f"[profile deep]\n{role}")
        monkeypatch.setenv("AWS_PROFILE", "deep")
        monkeypatch.setenv("AWS_ENDPOINT_URL_STS", f"http://127.0.0.1:{server.server_port}")
        assert (await sign("s3://bucket/a"))[0] == "ASIA-r"
        server.shutdown()


SSO = """[profile work]
region = us-east-1
sso_session = s
sso_account_id = 1
sso_role_name = r
[sso-session s]
sso_region = us-east-1
sso_start_url = https://sso.test
"""


class Portal(BaseHTTPRequestHandler):
    """AWS's portal of SSO, which has one account with two roles, and its service of tokens."""

    def do_GET(self):
        asked = parse_qs(urlsplit(self.path).query)
        if self.headers["x-amz-sso_bearer_token"] != "CANARY-GOOD":
            self.say(401, {"message": "Session token not found or invalid"}, "UnauthorizedException")
        elif (asked["account_id"], asked["role_name"]) != (["1"], ["r"]):
            self.say(403, {"message": "No access"}, "ForbiddenException")
        else:
            keys = {"accessKeyId": "ASIASSO", "secretAccessKey": "s", "sessionToken": "t"}
            self.say(200, {"roleCredentials": keys | {"expiration": 4_070_908_800_000}})

    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        is_known = (asked["grantType"], asked["refreshToken"]) == ("refresh_token", "CANARY-AGAIN")
        self.say(200 if is_known else 400, {"accessToken": "CANARY-GOOD", "expiresIn": 3600})

    def say(self, status, document, error=""):
        body = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("x-amzn-ErrorType", error)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        """Nothing is printed."""


@pytest.fixture
def portal(home, monkeypatch):
    """A profile with a login by SSO, and its portal; the function writes what `aws sso login` keeps."""
    for module in ("botocore.credentials.SSOProvider", "botocore.tokens.SSOTokenProvider"):
        # it has looked for the home when it was imported
        monkeypatch.setattr(f"{module}._SSO_TOKEN_CACHE_DIR", str(home / ".aws/sso/cache"))
    with HTTPServer(("127.0.0.1", 0), Portal) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        for name in ("SSO", "SSO_OIDC"):
            monkeypatch.setenv(f"AWS_ENDPOINT_URL_{name}", f"http://127.0.0.1:{server.server_port}")
        monkeypatch.setenv("AWS_PROFILE", "work")

        def log_in(token, *, config=SSO, key="s", minutes=480, **more):
            write(home / ".aws/config", config)
            ends = (datetime.now(UTC) + timedelta(minutes=minutes)).strftime("%Y-%m-%dT%H:%M:%SZ")
            kept = {"startUrl": "https://sso.test", "region": "us-east-1", "accessToken": token}
            name = hashlib.sha1(key.encode()).hexdigest()
            write(home / f".aws/sso/cache/{name}.json", json.dumps(kept | {"expiresAt": ends} | more))

        yield log_in
        server.shutdown()


async def test_a_login_by_sso_signs_with_the_keys_of_its_role(portal):
    """Of a session, as of a profile in the older form, which names the portal itself."""
    portal("CANARY-GOOD")
    assert (await sign("s3://bucket/a"))[:3:2] == ["ASIASSO", "us-east-1"]
    older = SSO.replace("sso_session = s\n", "").replace("[sso-session s]\n", "")
    portal("CANARY-GOOD", config=older, key="https://sso.test")
    assert (await sign("s3://bucket/a"))[0] == "ASIASSO"


async def test_a_login_by_sso_is_renewed_while_its_session_lasts(portal):
    """With the token for that, as the tools of AWS do: no person has to log in."""
    client = {"clientId": "c", "clientSecret": "CANARY", "registrationExpiresAt": "2099-01-01T00:00:00Z"}
    portal("CANARY-OLD", minutes=1, refreshToken="CANARY-AGAIN", **client)
    assert (await sign("s3://bucket/a"))[0] == "ASIASSO"


@pytest.mark.parametrize(
    ("token", "config", "message"),
    [
        ("CANARY-BAD", SSO, "has expired; run: aws sso login --profile work"),
        ("CANARY-GOOD", SSO.replace("role_name = r", "role_name = x"), "ForbiddenException"),
    ],
)
def test_what_the_portal_of_sso_refuses_is_named_with_the_next_step(portal, token, config, message):
    """A token that it has ended, and a role that this user does not have; no token is shown."""
    portal(token, config=config)
    with pytest.raises(UsageError, match=message) as caught:
        find_login("s3://bucket/p")
    assert "CANARY" not in str(caught.value)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ("[profile other]\nregion = x\n", "work is not in ~/.aws/config"),
        ("[profile work]\nregion = us-east-1\n", "the profile work has none"),
        (
            SSO,
            "run: aws sso login --profile work",
        ),
        ("[profile work]\ncredential_process = false\n", "gives none .CredentialRetrievalError"),
    ],
)
def test_a_profile_without_a_login_is_named_with_the_next_step(home, monkeypatch, config, message):
    """A profile that is absent, empty, expired or broken ends the run before a request."""
    write(home / ".aws/config", config)
    monkeypatch.setenv("AWS_PROFILE", "work")
    with pytest.raises(UsageError, match=message):
        find_login("s3://bucket/p")


async def test_a_machine_whose_metadata_service_is_silent_has_no_role(home, monkeypatch):
    """Where nothing answers at the address of the metadata service, the message names the ways to log in."""
    monkeypatch.delenv("AWS_EC2_METADATA_DISABLED")
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setenv("AWS_METADATA_ENDPOINT", f"http://127.0.0.1:{silent.getsockname()[1]}")
        links = ObjectLinks()
        for _ in range(2):  # and it is asked once
            with pytest.raises(Refused, match=r"set AWS_ACCESS_KEY_ID .*AWS_PROFILE.*AWS_SKIP_SIGNATURE"):
                await links.sign(SecretUrl("s3://bucket/a"), "GET")
        silent.settimeout(1)
        silent.accept()[0].close()
        with pytest.raises(TimeoutError):
            silent.accept()


async def ask(url):
    transport = RunTransport(connect_timeout_s=5, network=DIRECT)
    try:
        response = await transport.open(SecretUrl(url), {}, {}, fresh=False)
        return bytes(await response.read())
    finally:
        await transport.close()


async def test_a_login_of_gcloud_sends_its_token(home, monkeypatch):
    """The default credentials of ``gcloud``, also of another identity provider, reach a bucket."""
    token = json.dumps({"access_token": "CANARY-T", "token_type": "Bearer", "expires_in": 3600})
    async with (
        RawServer(reply(token.encode(), "Content-Type: application/json")) as service,
        RawServer(reply(b"data")) as store,
    ):
        write(home / "subject", "word")
        login = {
            "type": "external_account",
            "audience": "//iam.googleapis.com/x",
            "subject_token_type": "urn:ietf:params:oauth:token-type:jwt",
            "token_url": service.url,
            "credential_source": {"file": str(home / "subject")},
        }
        write(home / ".config/gcloud/application_default_credentials.json", json.dumps(login))
        monkeypatch.setenv("GOOGLE_BASE_URL", store.url)
        assert await ask("gs://box/d/a b") == b"data"
        assert store.line() == "GET /box/d/a%20b HTTP/1.1"
        assert "Authorization: Bearer CANARY-T\r\n" in store.heads[0]


async def test_a_login_of_az_sends_its_token(home, monkeypatch):
    """``az login`` is enough for a container, whatever signs its keys hold."""
    program = home / "bin/az"
    write(
        program,
        '#!/bin/sh\necho \'{"accessToken": "CANARY-T", "expires_on": 4102444800, "tokenType": "Bearer"}\'\n',
    )
    program.chmod(0o755)
    write(home / ".azure/azureProfile.json", "{}")
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", "acc")
    async with RawServer(reply(b"data")) as store:
        monkeypatch.setenv("AZURE_STORAGE_ENDPOINT", store.url)
        assert await ask("az://box/d/a b") == b"data"
        assert store.line() == "GET /box/d/a%20b HTTP/1.1"
        assert "Authorization: Bearer CANARY-T\r\n" in store.heads[0]
        assert "x-ms-version: " in store.heads[0]


def test_what_a_login_could_not_renew_is_shown():
    """A login that ends in the middle of a run is named as that, from the text of the library's error."""
    text = 'Generic S3 error: External("UsageError: cfetch has no login: the login has expired; run: x")'
    assert find_own_refusal(text) == "cfetch has no login: the login has expired; run: x"
