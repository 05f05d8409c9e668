"""The worker of sdk/testdata/worker.jsonl. The tool `held` appends a line to a file for each run, and runs until FILE.go exists."""
import os
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(__file__), ".."))
from toold import Continue, Fail, NoOperation, Question, Worker

token = os.environ.get("TOOLD_TEST_TOKEN", "")  # or @ and the path of a file


def read() -> str:
    with open(token[1:]) as f:
        return f.read()


worker = Worker("tests", address=sys.argv[1], token=read if token.startswith("@") else token, max_calls=4)


def held(call, file: str = ""):
    with open(file, "a") as f:
        print(call.attempt, call.idempotency_key, file=f)
    while not os.path.exists(file + ".go"):
        call.sleep(0.005)
    return f"held on attempt {call.attempt}"


worker.tool(held, observe=True)
worker.tool(held, id="held_idempotent", observe=True, idempotent=True)
worker.tool(held, id="held_read", observe=True, read_only=True)
worker.tool(held, id="held_known", observe=True, reconcile=lambda call: "it happened")


@worker.tool(observe=True, read_only=True, concurrency_safe=True)
def greet(call, name: str) -> str:
    return f"Hello, {name}!"


@worker.tool(observe=True)
def tells(call):
    call.progress(0.5, "half")
    call.activity("plan", "todo", ["one"])
    call.activity_delta("plan", [{"op": "add", "path": "/-", "value": "two"}])
    call.output("printed\n")
    call.save_checkpoint(b"kept")
    return {"caller": call.caller.subject, "run": call.run.run_id, "key": len(call.idempotency_key)}


@worker.tool(observe=True)
def steps(call):
    call.progress(message="queued", status="pending")
    call.progress(0.25, loaded=1, total=4)
    call.progress(1, loaded=4, total=4, status="done")
    call.progress(message="no paint", status="failed")
    call.progress(status="cancelled")
    for wrong in ({"status": "lost"}, {"fraction": 2}, {"fraction": float("nan")}, {"loaded": -1}):
        try:
            call.progress(**wrong)
            raise Fail(f"{wrong} was accepted")
        except ValueError:
            pass


@worker.tool(observe=True)
def asks(call):
    if call.resumed:
        return "painted " + call.answer
    raise Question("Which colour?", answer={"type": "string"})


@worker.tool(observe=True)
def fails(call):
    raise Fail("there is no paint", reason="NO_PAINT")


@worker.tool(observe=True)
def panics(call):
    raise RuntimeError("oh no")


@worker.tool(observe=True)
def huge(call):
    return "x" * (5 << 20)


@worker.tool(observe=True)
def odd(call):
    call.progress(0.5, "half of \ud83d")
    return "cut \ud83d"


asked = {}


def how_far(call):
    asked[call.call_id] = asked.get(call.call_id, 0) + 1
    if asked[call.call_id] == 1:
        raise RuntimeError("no route")
    if asked[call.call_id] == 2:
        return call.progress(0.5, "half")
    return f"a picture of {call.operation_id}"


@worker.tool(observe=True, poll=how_far)
def renders(call):
    raise Continue("op-1", "it renders", poll_after=0.1)


@worker.tool(observe=True)
def delivers(call):
    def deliver(id):
        worker.complete(id, "op-2", "delivered")
        try:
            worker.complete(id, "op-2", "twice")
        except NoOperation:
            worker.log("delivered once")

    threading.Thread(target=deliver, args=[call.call_id], daemon=True).start()
    call.sleep(0.3)
    raise Continue("op-2")


@worker.tool(observe=True)
def saves(call):
    return call.save_artifact("page.txt", b"long", "text/plain") + " " + call.save_artifact("page.txt", b"longer", "text/plain")


def is_there(call):
    if os.path.exists(call.operation_id + ".go"):
        return "done elsewhere"


@worker.tool(observe=True, poll=is_there)
def elsewhere(call, file: str):
    with open(file, "a") as f:
        print(call.attempt, file=f)
    raise Continue(file, poll_after=0.1)


seen = set()


def is_paint(call, colour: str):
    if colour == "riddle":
        raise Question("which?")
    if colour == "mud":
        raise Fail("there is no paint of mud", reason="NO_PAINT")
    if colour.startswith("once") and colour in seen:
        raise Fail("it is used up", reason="USED_UP")
    seen.add(colour)


def does_to_the_wall(call, colour: str):
    if colour == "ghost":
        raise RuntimeError("boo")
    return {"read_only": True, "observe": True} if colour == "none" else {"resources": [{"kind": "wall", "id": colour}]}


def tells_of_paint(call, colour: str):
    if colour == "ghost":
        raise RuntimeError("boo")
    return {"title": f"Paint it {colour}", "notes": ["it dries in an hour"], "basis": "wall-1"}


@worker.tool(validate=is_paint, assess=does_to_the_wall, mildest={"read_only": True, "observe": True, "resources": [{"kind": "wall"}]},
             describe=tells_of_paint)
def paints(call, colour: str):
    return f"painted {colour} over {call.resume.basis}"


@worker.tool(observe=True)
def types(call):
    lines = []
    for line in call.input():
        lines.append(line.decode().strip())
        call.output(f"{lines[-1]}\n")
    return " ".join(lines)


@worker.tool(observe=True)
def reads_one(call):
    with call.input() as file:
        return file.readline().decode().strip()


@worker.tool(observe=True)
def leaves(call):
    sys.exit(1)


worker.run()
