"""What error codes of stores, hubs and TLS mean: whose fault it is, whether another try helps, what to do.

A row is used whatever the status of the reply is: stores send ``Throttling`` with 400, and ``ExpiredToken``
with 400 or 403. Codes that only say what the status says already have no row.
"""

from typing import Literal, NamedTuple

Course = Literal["", "refuse", "refresh", "retry", "throttle"]


class Known(NamedTuple):
    """``course``: what to do with the request; empty: what its status says. ``next_step`` is for a person."""

    course: Course
    next_step: str


_ARCHIVED = Known(
    "refuse", "the object is archived: restore it in the store first, which takes minutes to hours"
)
_REHYDRATED = Known("refuse", "the object is being brought from the archive: run again in some hours")
_CLOCK = Known("refuse", "this machine's clock is wrong, compare it with the reply's Date; set it (NTP)")
_EXPIRED = Known("refresh", "the login's session, or the link, has expired: log in anew, or sign new links")
_REGION = Known("refuse", "the bucket is in another region; set AWS_REGION")
_KEY = Known("", "the access key is wrong or deleted; check the login in the environment")
_SIGNATURE = Known("", "the secret key does not fit the access key, or the link was changed on its way")
_DENIED = Known("", "the login, or the link, may not read it")
_BUCKET = Known("refuse", "there is no such bucket or container; correct the URL")
_SUSPENDED = Known("refuse", "the bucket's owner has a problem with the account, such as a bill")
_PAYER = Known("refuse", "its reader pays: name a project or account for the bill to the store")
_KMS = Known("refuse", "the key with which the object is encrypted is disabled or denied to this login")
_BUSY = Known("throttle", "")
_LATER = Known("retry", "")
_QUOTA = Known("refuse", "the file's quota of downloads is used up; try again in a day")
_PUBLIC = Known("refuse", "its store permits no access without a login")
_GATED = Known(
    "refuse", "its owner gives access on request: accept the terms on its page, with the account of the token"
)
_UNKNOWN_REPOSITORY = Known("", "there is no such repository, or the token may not see it (HF_TOKEN)")
_DISABLED = Known("refuse", "the hub has disabled the repository")

_ROWS: tuple[tuple[Known, str], ...] = (
    (_ARCHIVED, "InvalidObjectState BlobArchived ObjectArchived ArchivedObject"),
    (_REHYDRATED, "BlobBeingRehydrated RestoreAlreadyInProgress"),
    (_CLOCK, "RequestTimeTooSkewed RequestExpired RequestInTheFuture"),
    (
        _EXPIRED,
        "ExpiredToken ExpiredTokenException TokenRefreshRequired SecurityTokenExpired RequestHasExpired",
    ),
    (_EXPIRED, "token_expired expired_token ExpiredSecurityToken ExpiredAuthenticationToken"),
    (_REGION, "PermanentRedirect AuthorizationHeaderMalformed IllegalLocationConstraintException"),
    (_REGION, "AccessForbiddenByEndpoint InvalidRegionName IncorrectEndpoint"),
    (_KEY, "InvalidAccessKeyId InvalidAccessKey InvalidToken InvalidSecurity InvalidSecurityToken"),
    (_KEY, "UnrecognizedClientException NoSuchKeyId"),
    (_SIGNATURE, "SignatureDoesNotMatch AuthenticationFailed InvalidSignatureException"),
    (_DENIED, "AccessDenied AuthorizationFailure AuthorizationPermissionMismatch AllAccessDisabled"),
    (_DENIED, "InsufficientAccountPermissions forbidden"),
    (_BUCKET, "NoSuchBucket ContainerNotFound InvalidBucketName AccountNotFound"),
    (
        _SUSPENDED,
        "AccountProblem UserSuspend AccountIsDisabled UserDisable NotSignedUp UserProjectAccountProblem",
    ),
    (_PAYER, "UserProjectMissing RequesterPays InvalidPayer AccessDeniedRequesterPays"),
    (
        _KMS,
        "KMS.DisabledException KMS.NotFoundException KMS.KMSInvalidStateException KMS.AccessDeniedException",
    ),
    (_PUBLIC, "PublicAccessNotPermitted NoAuthenticationInformation"),
    (_BUSY, "SlowDown Throttling ThrottlingException RequestLimitExceeded TooManyRequests ServerBusy"),
    (
        _BUSY,
        "BandwidthLimitExceeded rateLimitExceeded userRateLimitExceeded RequestRateTooLarge QpsLimitExceeded",
    ),
    (
        _LATER,
        "RequestTimeout InternalError OperationTimedOut ServiceUnavailable backendError OperationAborted",
    ),
    (_QUOTA, "downloadQuotaExceeded dailyLimitExceeded quotaExceeded"),
    (_GATED, "GatedRepo"),
    (_UNKNOWN_REPOSITORY, "RepoNotFound"),
    (_DISABLED, "DisabledRepo"),
)
_KNOWN = {code.lower(): known for known, codes in _ROWS for code in codes.split()}

_OLD_TLS = "its TLS is too old or too weak for this machine's OpenSSL; its operator has to renew it"
_OTHER_TLS = "the two share no version or cipher of TLS; its operator has to renew it"
_ASKED_CERTIFICATE = "it wants a certificate of its clients; name one with --client-cert"
_ALIEN_NAME = "it does not know this host name; check the URL"
_TLS_ROWS = (
    (_OLD_TLS, "DH_KEY_TOO_SMALL EE_KEY_TOO_SMALL CA_KEY_TOO_SMALL CA_MD_TOO_WEAK"),
    (_OLD_TLS, "MODULUS_TOO_SMALL BAD_DH_VALUE UNSAFE_LEGACY_RENEGOTIATION_DISABLED"),
    (_OLD_TLS, "LEGACY_SIGALG_DISALLOWED_OR_UNSUPPORTED DH_PUBLIC_VALUE_LENGTH_IS_WRONG"),
    (_OTHER_TLS, "UNSUPPORTED_PROTOCOL TLSV1_ALERT_PROTOCOL_VERSION SSLV3_ALERT_HANDSHAKE_FAILURE"),
    (_OTHER_TLS, "WRONG_SSL_VERSION NO_PROTOCOLS_AVAILABLE TLSV1_ALERT_INSUFFICIENT_SECURITY"),
    (_OTHER_TLS, "WRONG_SIGNATURE_TYPE WRONG_CIPHER_RETURNED NO_SHARED_CIPHER"),
    (_OTHER_TLS, "TLSV1_ALERT_NO_APPLICATION_PROTOCOL NO_CIPHERS_AVAILABLE UNKNOWN_CIPHER_RETURNED"),
    (_OTHER_TLS, "NO_SUITABLE_SIGNATURE_ALGORITHM"),
    (_ASKED_CERTIFICATE, "TLSV13_ALERT_CERTIFICATE_REQUIRED SSLV3_ALERT_BAD_CERTIFICATE"),
    (_ASKED_CERTIFICATE, "SSLV3_ALERT_CERTIFICATE_UNKNOWN TLSV1_ALERT_UNKNOWN_CA"),
    (_ASKED_CERTIFICATE, "SSLV3_ALERT_CERTIFICATE_EXPIRED TLSV1_ALERT_ACCESS_DENIED"),
    (_ASKED_CERTIFICATE, "SSLV3_ALERT_CERTIFICATE_REVOKED"),
    (_ALIEN_NAME, "TLSV1_UNRECOGNIZED_NAME"),
)
TLS: dict[str, str] = {word: step for step, words in _TLS_ROWS for word in words.split()}
"""By OpenSSL's reason words: what to do about failures that another try does not change."""


def find_known(code: str) -> Known | None:
    """The row of an error code; None: cfetch does not know it."""
    return _KNOWN.get(code.lower())
