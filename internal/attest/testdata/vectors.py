"""Vectors from the real client: run inside an environment with pinned installed.

    python internal/attest/testdata/vectors.py > internal/attest/testdata/vectors.json

"minted" are tokens of the client's own mint, "judged" are hand-made tokens with
the verdict of the client's verifier. The Go tests must agree with every line.
"""

import base64
import hashlib
import hmac
import json
import sys

from pinned.pinboard.attestation import mint_attestation, verify_attestation

SECRET = "0123456789abcdef" * 4
NOW = 1_800_000_000
AUD = "session-1"


def b64(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def token(header, claims, secret=SECRET, raw=False):
    parts = [
        b64((part if raw else json.dumps(part, separators=(",", ":"))).encode())
        for part in (header, claims)
    ]
    signed = ".".join(parts)
    return f"{signed}.{b64(hmac.new(secret.encode(), signed.encode(), hashlib.sha256).digest())}"


HEADER = {"alg": "HS256", "typ": "pinboard+jwt"}
CLAIMS = {"aud": AUD, "iat": NOW, "exp": NOW + 1}


def without(name):
    return {k: v for k, v in CLAIMS.items() if k != name}


good = token(HEADER, CLAIMS)
head, body, mac = good.split(".")
cases = {
    "plain": good,
    "members in another order": token({"typ": "pinboard+jwt", "alg": "HS256"}, {"exp": NOW + 1, "iat": NOW, "aud": AUD}),
    "caller and depth": token(HEADER, CLAIMS | {"caller": "/threads/t1", "depth": 3}),
    "caller alone": token(HEADER, CLAIMS | {"caller": "/a/b/t1"}),
    "unknown claim": token(HEADER, CLAIMS | {"future": [1]}),
    "extra header member": token(HEADER | {"kid": "1"}, CLAIMS),
    "alg none": token({"alg": "none", "typ": "pinboard+jwt"}, CLAIMS),
    "typ JWT": token({"alg": "HS256", "typ": "JWT"}, CLAIMS),
    "no typ": token({"alg": "HS256"}, CLAIMS),
    "decoded key": f"{head}.{body}.{b64(hmac.new(bytes.fromhex(SECRET), f'{head}.{body}'.encode(), hashlib.sha256).digest())}",
    "other secret": token(HEADER, CLAIMS, secret="f" * 64),
    "cut signature": good[:-1],
    "no signature": f"{head}.{body}.",
    "two parts": f"{head}.{body}",
    "four parts": good + ".x",
    "empty": "",
    "padded": good + "=",
    "other audience": token(HEADER, CLAIMS | {"aud": "session-2"}),
    "no audience": token(HEADER, without("aud")),
    "no iat": token(HEADER, without("iat")),
    "no exp": token(HEADER, without("exp")),
    "iat float": token(HEADER, CLAIMS | {"iat": float(NOW)}),
    "exp float": token(HEADER, CLAIMS | {"exp": float(NOW + 1)}),
    "iat exponent": token(json.dumps(HEADER), '{"aud":"session-1","iat":1.8e9,"exp":1800000001}', raw=True),
    "iat bool": token(HEADER, CLAIMS | {"iat": True}),
    "iat text": token(HEADER, CLAIMS | {"iat": str(NOW)}),
    "iat null": token(HEADER, CLAIMS | {"iat": None}),
    "caller null": token(HEADER, CLAIMS | {"caller": None}),
    "caller number": token(HEADER, CLAIMS | {"caller": 7}),
    "depth text": token(HEADER, CLAIMS | {"caller": "/t/a", "depth": "3"}),
    "depth null": token(HEADER, CLAIMS | {"caller": "/t/a", "depth": None}),
    "depth bool": token(HEADER, CLAIMS | {"caller": "/t/a", "depth": True}),
    "claims a list": token(HEADER, [CLAIMS]),
    "claims no json": token(json.dumps(HEADER), "{", raw=True),
    "header no json": token("{", json.dumps(CLAIMS), raw=True),
    "from the future, 30 s": token(HEADER, CLAIMS | {"iat": NOW + 30, "exp": NOW + 31}),
    "from the future, 31 s": token(HEADER, CLAIMS | {"iat": NOW + 31, "exp": NOW + 32}),
    "expired 30 s ago": token(HEADER, CLAIMS | {"iat": NOW - 31, "exp": NOW - 30}),
    "expired 31 s ago": token(HEADER, CLAIMS | {"iat": NOW - 32, "exp": NOW - 31}),
}

json.dump(
    {
        "secret": SECRET,
        "now": NOW,
        "aud": AUD,
        "minted": [
            {"token": mint_attestation(SECRET, aud=AUD, now=NOW + 0.7, caller=caller, depth=depth), "caller": caller, "depth": depth}
            for caller, depth in ((None, None), ("/threads/t1", 1), ("/a/b/x~y", 50))
        ],
        "judged": [
            {
                "name": name,
                "token": value,
                "valid": verify_attestation(value, secret=SECRET, audiences={AUD}, now=NOW) is not None,
            }
            for name, value in cases.items()
        ],
    },
    sys.stdout,
    indent=1,
)
print()
