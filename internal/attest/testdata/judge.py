"""The real verifier as a filter: {"token","secret","aud","now"} per line in,
the claims (or null) per line out. Driven by TestRealVerifier."""

import json
import sys

from pinned.pinboard.attestation import verify_attestation

for line in sys.stdin:
    q = json.loads(line)
    print(json.dumps(verify_attestation(q["token"], secret=q["secret"], audiences={q["aud"]}, now=q["now"])), flush=True)
