"""What the harness, its client and the tests agree on."""

TOKEN = "interop-token"

# Short leases, so that waiting one out costs little. The client's own margins
# shrink with them: 5 s buffer and 3 s beats belong to leases of 15 s.
LEASE = 3.0
HEARTBEAT = 0.5
BUFFER = 0.8
