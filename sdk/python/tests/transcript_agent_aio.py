"""transcript_agent.py with asyncio. It prints what it sees, one line of JSON per step."""
import asyncio
import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), ".."))
from toold import aio, new_turn_id, reasons


def tell(**what):
    print(json.dumps(what, sort_keys=True), flush=True)


def use(id, tool, /, **input):
    return {"type": "tool_use", "id": id, "name": tool, "input": input}


def message(*content):
    return {"role": "assistant", "stop_reason": "tool_use", "content": content}


def texts(messages):
    blocks = [b for m in messages for b in m["content"]]
    return [[b["tool_use_id"], b["content"] if isinstance(b["content"], str) else b["content"][0]["text"]] for b in blocks]


async def main():
    async with aio.Client(sys.argv[1], os.environ.get("TOOLD_TEST_TOKEN", "")) as client:
        toolset = await client.toolset("anthropic", allow=["greet", "asks"], own_tools=["mine"])
        tell(step="toolset", tools=sorted(t["name"] for t in toolset.tools), changed=await toolset.refresh())

        greets = message(use("t1", "greet", name="Ada"), use("t2", "mine"), use("t3", "tells"), use("t4", "greet", name="Bob"))
        turn_id, events = new_turn_id(), []
        result = await toolset.turn(greets, turn_id=turn_id, run_id="r1", thread_id="t1").run(events.append)
        tell(step="turn", not_handled=[[n.index, n.id] for n in result.not_handled], finished=sum(e.HasField("finished") for e in events))
        tell(step="merge", texts=texts(result.merge([{"type": "tool_result", "tool_use_id": "t2", "content": "mine"}])))

        repeated = await toolset.turn(greets, turn_id=turn_id, run_id="r1", thread_id="t1").run()
        tell(step="repeat", same=repeated.messages == result.messages)
        try:
            await toolset.turn(message(use("t1", "greet", name="Eve")), turn_id=turn_id, run_id="r1", thread_id="t1").run()
        except reasons.TurnIdReused as e:
            tell(step="refused", reason=e.reason, hint=e.hint in e.__notes__)

        inbox = client.inbox(run_id="r2")
        asks = toolset.turn(message(use("t1", "asks")), turn_id=new_turn_id(), run_id="r2")
        waits = await asks.run()
        [[_, placeholder]] = texts((await asks.get(placeholders=True)).messages)
        tell(step="open", messages=len(waits.messages), open=len(waits.open), placeholder=placeholder.startswith("[toold placeholder]"))
        found = await anext(inbox)
        tell(step="inbox", found=found.call_id == waits.open[0])
        [_ async for _ in await client.resume(found, "red")]
        tell(step="late", texts=texts((await asks.get(wait=60)).messages))

        # The test kills the daemon during this turn, and answers the question during the next turn.
        seen = []

        async def show(event):
            seen.append(event.WhichOneof("event"))
            if seen[-1] == "suspended":
                tell(step="waiting", call_id=event.call_id)

        waits = await toolset.turn(message(use("t1", "asks")), turn_id=new_turn_id()).run(show, wait_for_decision=True)
        tell(step="resumed", events=" ".join(seen), texts=texts(waits.messages))

        cancelled = toolset.turn(message(use("t1", "asks")), turn_id=new_turn_id())
        await cancelled.run()
        await cancelled.cancel("no")
        last = await cancelled.get(wait=60)
        tell(step="cancelled", open=len(last.open), answers=len(texts(last.messages)))


asyncio.run(main())
