"""How stores and networks sign links: the keys of a query that change when a link is signed anew. Pure."""

import re

from cfetch.base.schemes import is_object_url


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# For each way to sign: the query keys that every such link has, and all keys that may change when it is
# signed anew. A single key is no signature: ``?st=CA`` and ``?st=NY`` name two objects.
_SIGNATURES = (
    (  # AWS Signature Version 4, "Authenticating requests: using query parameters"
        _words("x-amz-algorithm x-amz-credential x-amz-date x-amz-signature"),
        _words(
            "x-amz-algorithm x-amz-credential x-amz-date x-amz-signature x-amz-expires x-amz-signedheaders"
            " x-amz-security-token"
        ),
    ),
    (  # Google Cloud Storage, V4 signing
        _words("x-goog-algorithm x-goog-credential x-goog-date x-goog-signature"),
        _words(
            "x-goog-algorithm x-goog-credential x-goog-date x-goog-signature x-goog-expires"
            " x-goog-signedheaders"
        ),
    ),
    *(  # Azure Storage: shared access signatures of a service, a user, an account, or a stored policy
        (
            _words(f"sv sig {scope} {life}"),
            _words(
                "sv sig sr ss srt sp se st si spr sip ses sdd saoid suoid scid skoid sktid skt ske sks skv"
            ),
        )
        for scope in ("sr", "ss srt")
        for life in ("se", "si")
    ),
    *(  # CloudFront, with a canned and with a custom policy
        (_words(f"key-pair-id signature {life}"), _words("key-pair-id signature expires policy"))
        for life in ("expires", "policy")
    ),
    (  # Alibaba OSS, version 4
        _words("x-oss-signature-version x-oss-credential x-oss-date x-oss-signature"),
        _words(
            "x-oss-signature-version x-oss-credential x-oss-date x-oss-signature x-oss-expires"
            " x-oss-security-token x-oss-additional-headers"
        ),
    ),
    (  # Tencent COS
        _words("q-sign-algorithm q-ak q-sign-time q-key-time q-signature"),
        _words(
            "q-sign-algorithm q-ak q-sign-time q-key-time q-signature q-header-list q-url-param-list"
            " x-cos-security-token"
        ),
    ),
    (  # Volcengine TOS
        _words("x-tos-algorithm x-tos-credential x-tos-date x-tos-signature"),
        _words(
            "x-tos-algorithm x-tos-credential x-tos-date x-tos-signature x-tos-expires x-tos-signedheaders"
            " x-tos-security-token"
        ),
    ),
    *(  # Alibaba OSS (version 1), Huawei OBS, Kingsoft KS3, UCloud
        (
            _words(f"{signer} signature expires"),
            _words(f"{signer} signature expires security-token x-obs-security-token"),
        )
        for signer in ("ossaccesskeyid", "accesskeyid", "kssaccesskeyid", "ucloudpublickey")
    ),
    (  # Bunny
        _words("token expires token_path"),
        _words("token expires token_path token_countries"),
    ),
    *(  # Version 2 of Amazon S3 and of Google Cloud Storage
        (_words(f"{signer} signature expires"), _words(f"{signer} signature expires x-amz-security-token"))
        for signer in ("awsaccesskeyid", "googleaccessid")
    ),
)
# Tokens in a single key, by the form of their value: Akamai's, Cloudflare's, Qiniu's, Baidu's.
_HMAC = re.compile(r"(?=.*exp(?:=|%3d))(?=.*hmac(?:=|%3d)).+", re.IGNORECASE)
_TOKENS = {
    **dict.fromkeys(("hdnts", "hdnea", "hdntl", "__token__"), _HMAC),
    "__gda__": re.compile(r"\d{9,11}_[0-9a-f]{32}", re.IGNORECASE),
    "verify": re.compile(r"\d{9,11}-[A-Za-z0-9%+/=_-]{20,}"),
    "authorization": re.compile(r"bce-auth-v\d(?:/|%2f).+", re.IGNORECASE),
}

CHANGING_KEYS = frozenset[str]().union(*(changing for _, changing in _SIGNATURES), _TOKENS)
"""All keys that may change when a link is signed anew."""
PROOF_KEYS = frozenset(key for key in CHANGING_KEYS if "sig" in key or key in {"token_path", *_TOKENS})
"""Keys of which a signed link has one at least: what signs, and single tokens."""


def drop_signature(query: str) -> str:
    """The query without its signature, if that is complete; else the whole query."""
    pairs = [(pair.partition("=")[0].lower(), pair) for pair in query.split("&")]
    keys = {key for key, _ in pairs}
    signed = next((changing for needed, changing in _SIGNATURES if needed <= keys), frozenset[str]())
    kept = [pair for key, pair in pairs if key not in signed and not _is_token(key, pair)]
    return "&".join(kept)


def _is_token(key: str, pair: str) -> bool:
    form = _TOKENS.get(key)
    return form is not None and form.fullmatch(pair.partition("=")[2]) is not None


_TAIL = re.compile(r"[?#].*\Z", re.DOTALL)
_LOGIN = re.compile("//[^/]*@")


def strip_secrets(url: str) -> str:
    """The URL with its whole path, and without the parts that ``SecretUrl`` never shows: query and login.

    >>> strip_secrets("https://me:pw@host/a/b.jpg?id=1&token=x#y"), strip_secrets("s3://bucket/why?.jpg")
    ('https://host/a/b.jpg', 's3://bucket/why?.jpg')
    """
    return url if is_object_url(url) else _LOGIN.sub("//", _TAIL.sub("", url))
