"""The hashes a manifest may state: known answers, which one counts, and what a missing library says."""

import json
from base64 import b64encode

import pytest

from cfetch.base.errors import ManifestError, UsageError
from cfetch.manifest import digests
from cfetch.manifest.digests import HEX_DIGITS, choose_stronger, needs_library
from cfetch.manifest.entry import Digest
from cfetch.manifest.hashing import new_hash

OF_DIGITS = {  # of b"123456789", from the algorithms' own standards or reference programs
    "md5": "25f9e794323b453885f5181f1b624d0b",
    "sha1": "f7c3bc1d808e04732adf679965ccc34ca7ae3441",
    "sha256": "15e2b0d3c33891ebb0f1ef609ec419420c20e320ce94c65fbc8c3312448eb225",
    "sha512": (
        "d9e6762dd1c8eaf6d61b3c6192fc408d4d6d5f1176d0c29169bc24e71c3f274a"
        "d27fcd5811b313d681f7e55ec02d73d499c95455b6b5bb503acf574fba8ffe85"
    ),
    "git_sha1": "e2e107ac61ac259b87c544f6e7a4eb03422c6c21",
    "crc32c": "e3069283",
    "crc32": "cbf43926",
    "sha384": (
        "eb455d56d2c1a69de64e832011f3393d45f3fa31d6842f21af92d2fe469c499da5e3179847334a18479c8d1dedea1be3"
    ),
    "sha224": "9b3e61bf29f17c75572fae2e86e17809a4513d07c8a18152acf34521",
    "blake2b": (
        "f5ab8bafa6f2f72b431188ac38ae2de7bb618fb3d38b6cbf639defcdd5e10a86"
        "b22fccff571da37e42b23b80b657ee4d936478f582280a87d6dbb1da73f5c47d"
    ),
    "sha3_512": (
        "e1e44d20556e97a180b6dd3ed7ae5c465cafd553fa8747dca038fb95635b77a3"
        "7318f7ddf7aec1f6c3c14bb160ba2497007decf38dd361cab199e3b8c8fe1f5c"
    ),
    "sha3_384": (
        "8b90ede4d095409f1a12492c2520599683a9478dc70b7566d23b3e41ece8538c6cde92382a5e38786490375c54672abf"
    ),
    "sha3_256": "87cd084d190e436f147322b90e7384f6a8e0676c99d21ef519ea718e51d45f9c",
    "sha3_224": "5795c3d628fd638c9835a4c79a55809f265068c88729a1a3fcdf8522",
    "blake3": "b7d65b48420d1033cb2595293263b6f72eabee20d55e699d0df1973b3c9deed1",
}


@pytest.fixture
def no_libraries(monkeypatch):
    """As if no extra were installed."""
    monkeypatch.setattr(digests, "find_spec", lambda _: None)
    needs_library.cache_clear()
    yield
    needs_library.cache_clear()


def entry_of(**hashes):
    return json.dumps({"files": [{"url": "http://h/a", "size": 9, **hashes}]})


@pytest.mark.parametrize("algorithm", HEX_DIGITS)
def test_known_answers(algorithm):
    """Each algorithm gives its published check value, however the bytes are cut."""
    running = new_hash(algorithm, 9)
    running.update(b"1234")
    running.update(b"56789")
    assert running.hexdigest() == OF_DIGITS[algorithm]
    assert len(running.hexdigest()) == HEX_DIGITS[algorithm]


@pytest.mark.parametrize(("algorithm", "answer"), [("crc32", "cbf43926"), ("crc64nvme", "ae8b14860a799888")])
def test_known_answers_of_what_only_a_store_states(algorithm, answer):
    """A copy goes on by itself."""
    if algorithm == "crc64nvme":
        pytest.importorskip("awscrt")
    running = new_hash(algorithm)
    running.update(b"1234")
    other = running.copy()
    other.update(b"56789")
    running.update(b"")
    assert other.hexdigest() == answer != running.hexdigest()


@pytest.mark.parametrize("algorithm", HEX_DIGITS)
def test_every_key_is_read(frozen, algorithm):
    """A hash is stated under its own key, in either case."""
    digest = frozen(entry_of(**{algorithm: OF_DIGITS[algorithm].upper()})).entry(0).digest
    assert digest == Digest(algorithm, OF_DIGITS[algorithm])


@pytest.mark.parametrize("algorithm", HEX_DIGITS)
@pytest.mark.parametrize(
    "spoil", [lambda t: t[1:], lambda t: t + "0", lambda t: "g" + t[1:], lambda t: t + "\n"]
)
def test_wrong_length_or_letter(error_of, algorithm, spoil):
    """Anything but the algorithm's number of hexadecimal digits is a fault that names the key."""
    message = error_of(entry_of(**{algorithm: spoil(OF_DIGITS[algorithm])})).problems[0].message
    assert f"{algorithm}: it must be {HEX_DIGITS[algorithm]} hexadecimal digits" in message


@pytest.mark.parametrize("algorithm", HEX_DIGITS)
def test_a_hash_may_have_its_name_before_it(frozen, error_of, algorithm):
    """As cfetch.spark.download and OCI write it; a plan has only the digits, and another name is a fault."""
    digits = OF_DIGITS[algorithm]
    digest = frozen(entry_of(**{algorithm: f"{algorithm}:{digits}"})).entry(0).digest
    assert digest == Digest(algorithm, digits)
    for wrong in (f"other:{digits}", f"{algorithm}:{digits}0", f"{algorithm}:{algorithm}:{digits}"):
        message = error_of(entry_of(**{algorithm: wrong})).problems[0].message
        assert message.endswith(f"{algorithm}: it must be {HEX_DIGITS[algorithm]} hexadecimal digits")


@pytest.mark.parametrize("prefix", ["", "{}-", "{}:"])
@pytest.mark.parametrize("algorithm", HEX_DIGITS)
def test_base64_is_refused_with_a_hint(error_of, algorithm, prefix):
    """A web page's integrity attribute has it; the two forms cannot always be told apart, so one is read."""
    text = prefix.format(algorithm) + b64encode(bytes.fromhex(OF_DIGITS[algorithm])).decode()
    message = error_of(entry_of(**{algorithm: text})).problems[0].message
    assert "hexadecimal digits; write the bytes of its base64 as such digits" in message


def test_gits_hash_is_of_the_size_too(error_of):
    """So it can be computed only where the size is stated."""
    text = json.dumps({"files": [{"url": "http://h/a", "git_sha1": OF_DIGITS["git_sha1"]}]})
    assert "the row has to state the size" in error_of(text).problems[0].message


@pytest.mark.parametrize("order", [1, -1])
def test_the_strongest_counts(frozen, order):
    """Of several hashes the strongest is used, whatever their order."""
    stated = dict(list(OF_DIGITS.items())[::order])
    assert frozen(entry_of(**stated)).entry(0).digest.algorithm == "sha512"
    for name in list(HEX_DIGITS)[: list(HEX_DIGITS).index("blake3")]:
        del stated[name]
    assert frozen(entry_of(**stated)).entry(0).digest.algorithm == "blake3"
    assert choose_stronger(Digest("md5", ""), Digest("crc32c", "")).algorithm == "md5"


@pytest.mark.parametrize("algorithm", ["crc32c", "blake3"])
def test_missing_library(no_libraries, error_of, algorithm):
    """A hash that only a missing library computes is a fault that says what to install."""
    message = error_of(entry_of(**{algorithm: OF_DIGITS[algorithm]})).problems[0].message
    assert "pip install 'cfetch[hashes]'" in message
    with pytest.raises(UsageError, match=r"cfetch\[hashes\]"):
        new_hash(algorithm)


def test_missing_library_is_not_asked_for(no_libraries, frozen):
    """Where a stronger hash is stated too, the library is not needed."""
    plan = frozen(entry_of(**OF_DIGITS))
    assert plan.entry(0).digest.algorithm == "sha512"


def test_bad_weak_hash_beside_a_good_one(frozen):
    """A fault in a hash that does not count is still a fault."""
    with pytest.raises(ManifestError, match="md5"):
        frozen(entry_of(sha256="0" * 64, md5="xyz"))
