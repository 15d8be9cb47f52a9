"""A worker of examples/worker whose agent does what the user's words say. It writes what happens to a
file, a line of JSON for each event.

    job_worker.py FILE URL [OPTIONS of worker.py]"""

import json
import os
import pathlib
import sys
import time

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "examples/worker"
# The test makes this file.
WORD = pathlib.Path(sys.argv[1]).with_suffix(".word")


def note(event, job):
    fields = {name: job.fields.get(name) for name in ["job", "key", "run", "session", "subject"]}
    with open(sys.argv[1], "a", encoding="utf-8") as record:
        record.write(json.dumps({"event": event, "pid": os.getpid(), **fields}) + "\n")


def have_begun():
    """How many turns all workers have begun."""
    with open(sys.argv[1], encoding="utf-8") as record:
        return sum('"began"' in line for line in record)


def wait(job):
    """Works until it is stopped, or killed."""
    while job.wish:
        time.sleep(0.01)


def answer(request, job):
    text = request["messages"][-1]["content"]
    note("began", job)
    try:
        if "wait for the second run" in text and job.fields["run"] == "1":
            wait(job)
        elif "never answer" in text:
            wait(job)
        elif "think for long" in text:
            # The lease that the turn began with runs out meanwhile.
            time.sleep(1.2 * int(job.fields["lease_ms"]) / 1000)
        elif "wait for the word" in text:
            while not WORD.exists():
                time.sleep(0.01)
        elif "meet" in text:
            # Two workers have four places.
            while have_begun() < 4:
                time.sleep(0.01)
        elif "stop halfway" in text:
            yield "Once upon "
            wait(job)
        elif "weather" in text:
            job.say(type="text", text="One moment. ")
            job.say(type="message_end")
            job.say(type="call", name="get_weather", arguments='{"city": "Oslo"}')
            return
        elif "fail" in text:
            raise ValueError("the agent's own secret")
        elif "rubbish" in text:
            job.say(type="song", text="la")
        elif "flood" in text:
            for number in range(1, 2_001):
                # A worker that had said all could not be held by a server that is late.
                while number > 1_900 and not WORD.exists():
                    time.sleep(0.01)
                yield f"{number:06}" + "x" * 94
        elif "story" in text:
            for number in range(1, 1_000_001):
                yield f"This is sentence number {number} of a long story. "
                time.sleep(0.01)
        yield from [f"{word} " for word in f"You said: {text}".split(" ")]
        note("finished", job)
    finally:
        if not job.wish:
            note("stopped", job)


if __name__ == "__main__":
    sys.path.insert(0, str(FOLDER))
    import worker

    worker.answer = answer
    worker.main(sys.argv[2:])
