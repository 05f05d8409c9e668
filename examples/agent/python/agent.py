"""This agent does a task with the tools of toold and a model that speaks Chat Completions."""
import json
import os
import sys
import urllib.request

import toold

# A line of the history has a message. Lines with a turn id have a response of the model.
history = json.load(open("history.json")) if os.path.exists("history.json") else []


def add(*lines):
    """Appends lines to the history, and replaces its file. A crash leaves the old file or the new one."""
    history.extend(lines)
    with open("history.new", "w") as file:
        json.dump(history, file)
        file.flush()
        os.fsync(file.fileno())
    os.replace("history.new", "history.json")


def ask():
    system = [{"role": "system", "content": toolset.guidance}] if toolset.guidance else []
    body = {"model": os.environ["MODEL_NAME"], "messages": system + [line["message"] for line in history], "tools": toolset.tools}
    headers = {"content-type": "application/json", "authorization": "Bearer " + os.environ.get("MODEL_KEY", "none")}
    request = urllib.request.Request(os.environ["MODEL_URL"] + "/chat/completions", json.dumps(body).encode(), headers)
    return json.load(urllib.request.urlopen(request))["choices"][0]


def show(event):
    if event.HasField("progress"):
        print(event.progress.message, file=sys.stderr, flush=True)
    if event.HasField("suspended"):
        print("waits for a person: toold approve", event.suspended.suspension.suspension_id, file=sys.stderr, flush=True)


client = toold.Client(os.environ["TOOLD_ADDRESS"], os.environ.get("TOOLD_TOKEN", ""))
toolset = client.toolset("openai")
if not history:
    add({"message": {"role": "user", "content": sys.argv[1]}})
while True:
    if "turn_id" not in history[-1]:
        toolset.refresh()
        answer = ask()
        add({"turn_id": toold.new_turn_id(), "stop_reason": answer["finish_reason"], "message": answer["message"]})
    last = history[-1]
    turn = toolset.turn(last["message"], turn_id=last["turn_id"], stop_reason=last["stop_reason"]).run(show, wait_for_decision=True)
    if not turn.messages:
        break
    add(*({"message": message} for message in turn.messages))
print(last["message"]["content"])
