"""The client of daemon.TestClientTranscript. It prints what it sees, one line of JSON per step."""
import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), ".."))
from toold import Client, DigestMismatch
from toold.v1 import batch_pb2

client = Client(sys.argv[1], os.environ.get("TOOLD_TEST_TOKEN", ""))


def tell(**what):
    print(json.dumps(what, sort_keys=True), flush=True)


kinds = lambda events: " ".join(e.WhichOneof("event") for e in events)

tell(step="call", message=client.call("greet", {"name": "Ada"}).result.message)
tell(step="execute", events=kinds(client.execute("tells", run_id="r1")))
asked = client.call("asks")
forged = type(asked)()
forged.CopyFrom(asked)
forged.effective_arguments = '{"file":"other"}'
try:
    client.verify(forged)
except DigestMismatch:
    tell(step="verify", forged="refused")
tell(step="waiting", ids=[c.call_id for c in client.waiting()] == [asked.call_id])
who = client.who_am_i([asked])
tell(step="whoami", subject=who.principal.subject, approve=who.tickets[0].approve.allowed, remember=who.tickets[0].remember.reason)
tell(step="claim", by=client.claim(asked, 60).claimed_by.subject, released=client.claim(asked, release=True) is None)
tell(step="resume", events=kinds(client.resume(asked, "red")), message=client.get(asked.call_id).result.message)
tell(step="decline", status=kinds(client.decline(client.call("asks"), "no")))
frames = list(client.batch([client.spec("greet", {"name": n}) for n in ("a", "b")], strategy=batch_pb2.BATCH_STRATEGY_PARALLEL))
tell(step="batch", messages=[r.result.message for r in frames[-1].batch_finished.results])
# The test kills the daemon during this watch, and the next daemon delivers the remaining events.
waits = client.call("asks", call_id="watched-over-a-kill")
sequences, told = [], False
for frame in client.watch(call_id=waits.call_id, after_sequence=0):
    sequences += [e.sequence for e in frame.events]
    if len(sequences) == 3 and not told:
        told = True
        tell(step="watching")
tell(step="watch", sequences=sequences)
