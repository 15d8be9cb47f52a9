"""Records of conversations: in a file and in a real PostgreSQL, read back with `parley sessions`; and what
is left of them when the server is killed, or its database is away."""

import contextlib
import http.client
import json
import os
import resource
import signal
import sqlite3
import subprocess
import time
import urllib.parse

import pytest
import websockets
import websockets.sync.client
from parley_server import BINARY, HANG_GUARD, PATIENT_WEBSOCKET, ParleyServer
from postgresql_server import PostgreSQLServer
from recordings import DATA, convert
from strict_pooler import StrictPooler
from webhook_receiver import SECRET, WebhookReceiver

needs_postgresql = pytest.mark.skipif(
    not PostgreSQLServer.INSTALLED, reason="postgresql is not installed")


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "records.db")


def sessions(command, place, *arguments):
    """Runs `parley sessions`, and returns what it prints."""
    done = subprocess.run(
        [BINARY, "sessions", command, *arguments, "--records", place], capture_output=True,
        text=True, timeout=HANG_GUARD, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def listed(place):
    return [json.loads(line) for line in sessions("list", place, "--json").splitlines()]


def records(place):
    """The documents of all sessions, the newest first."""
    return [json.loads(sessions("export", place, session["id"])) for session in listed(place)]


def eventually(read):
    """Reads again and again until there is something."""
    deadline = time.monotonic() + HANG_GUARD
    while not (result := read()):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return result


def said(record):
    """Who said what, in order."""
    lines = []
    for entry in record["items"]:
        item = entry["item"]
        for part in item.get("content", []):
            lines.append((item["role"], part.get("text", part.get("transcript"))))
    return lines


def kill(server):
    server.process.kill()
    server.process.wait()
    server.expected_status = -9


# ---- What is in a record ----


def test_a_typed_conversation_is_recorded(model, path):
    arguments = ["--records", path, "--llm", model.url, "--model", "scripted"]
    with ParleyServer(*arguments, PARLEY_LLM_KEY="the-key") as server:
        done = server.talk("--text", "number 3", "--text", "number 2")
        assert done.returncode == 0
        record, = eventually(lambda: [r for r in records(path) if r["ended_at"]])
    assert said(record)[0] == ("user", "number 3") and len(record["items"]) == 4
    assert record["end"]["reason"] == "client_closed" and record["end"]["close_code"] == 1000
    assert [turn["status"] for turn in record["turns"]] == ["completed"] * 2
    assert [turn["number"] for turn in record["turns"]] == [1, 2]
    assert all(turn["latency_ms"]["first_token"] >= 0 for turn in record["turns"])
    assert record["usage"]["output_tokens"] == sum(
        turn["usage"]["output_tokens"] for turn in record["turns"])
    assert record["response_count"] == 2 and record["memory_peak_bytes"] > 1_000
    assert record["session"]["model"] == "parley" or record["session"]["model"]
    shown = sessions("show", path, record["id"])
    assert "user  number 3" in shown and "2 responses" in shown
    assert record["id"] in sessions("list", path)


def test_a_spoken_conversation_is_recorded(path, tmp_path):
    """Takes as long as the recording, which `parley talk` sends as a microphone would, and the reply,
    which is played to its end."""
    with ParleyServer("--records", path) as server:
        wav = convert(DATA / "goforward.raw", tmp_path / "question.wav")
        done = server.talk("--wav", str(wav))
        assert done.returncode == 0, done.stderr
        record, = eventually(lambda: [r for r in records(path) if r["ended_at"]])
    (user, words), (agent, answer) = said(record)
    assert (user, agent) == ("user", "assistant") and "forward" in words.lower()
    reply = record["items"][1]
    assert reply["speech"]["sent_ms"] > 500 and answer.startswith("You said")
    check_heard(reply)
    assert set(record["turns"][0]["latency_ms"]) == {"transcript", "first_token", "first_audio"}
    assert record["audio_in_seconds"] > 1
    # Each of the changes of a session has counted once.
    assert record["response_count"] == len(record["turns"]) == 1
    assert record["audio_out_seconds"] == pytest.approx(reply["speech"]["sent_ms"] / 1000)


def check_heard(reply):
    """All of a spoken reply was heard."""
    speech = reply["speech"]
    assert not speech["is_cut"] and speech["heard_ms"] == speech["sent_ms"]
    assert "written" not in speech


@pytest.mark.parametrize("form", ["opus", "pcm"])
def test_a_spoken_answer_to_a_typed_line_is_heard_to_its_end(path, tmp_path, form):
    with ParleyServer("--records", path) as server:
        done = server.talk(
            "--text", "two apples", "--out", str(tmp_path / "reply.wav"), "--format", form)
        assert done.returncode == 0, done.stderr
        record, = eventually(lambda: [r for r in records(path) if r["ended_at"]])
    assert said(record)[1] == ("assistant", "You said: two apples.")
    check_heard(record["items"][1])


@pytest.mark.parametrize("redaction", ["digits", "text"])
def test_redacted_words_are_not_in_the_file(path, redaction):
    with ParleyServer("--records", path, "--records-redaction", redaction) as server:
        server.talk("--text", "my card is 4111 2222")
        record, = eventually(lambda: [r for r in records(path) if r["ended_at"]])
    assert record["redaction"] == redaction
    for name in os.listdir(os.path.dirname(path)):
        with open(os.path.join(os.path.dirname(path), name), "rb") as file:
            content = file.read()
        assert b"4111" not in content and b"2222" not in content
        assert (b"my card" in content) <= (redaction == "digits")


def test_without_the_option_nothing_is_written(parley, path):
    parley.talk("--text", "hello")
    assert not os.path.exists(path)
    assert parley.metric("parley_record_changes_total") == "0"


# ---- The end of the server ----


@contextlib.contextmanager
def typed(server, text):
    """A session with one turn, which stays open."""
    content = [{"type": "input_text", "text": text}]
    with websockets.sync.client.connect(
            f"{server.realtime_url}?model=test", proxy=None, **PATIENT_WEBSOCKET) as client:
        for event in (
                {"type": "session.update",
                 "session": {"type": "realtime", "output_modalities": ["text"]}},
                {"type": "conversation.item.create",
                 "item": {"type": "message", "role": "user", "content": content}},
                {"type": "response.create"}):
            client.send(json.dumps(event))
        while json.loads(client.recv(HANG_GUARD))["type"] != "response.done":
            pass
        yield client


def test_sigterm_loses_nothing(path):
    with ParleyServer("--records", path, "--drain-jitter-ms", "0") as server:
        with typed(server, "please count to 3") as client:
            server.process.send_signal(signal.SIGTERM)
            with pytest.raises(websockets.ConnectionClosed):
                while True:
                    client.recv(HANG_GUARD)
        server.process.wait(HANG_GUARD)
    record, = records(path)
    assert said(record)[1] == ("assistant", "1, 2, 3.")
    assert record["turns"][0]["status"] == "completed"
    assert record["end"]["reason"] == "server_closed" and record["end"]["close_code"] == 1012


def test_sigkill_loses_at_most_the_last_second(path):
    with ParleyServer("--records", path) as server:
        with typed(server, "please count to 3"):
            # The turn is in the file within a second; a busy machine has longer.
            eventually(lambda: (all := records(path)) and all[0]["turns"])
            kill(server)
    record, = records(path)
    assert record["ended_at"] is None and len(record["items"]) == 2
    # The next server finds that the session has ended, once the process has not been seen for long.
    database = sqlite3.connect(path)
    database.execute("UPDATE processes SET seen_ms = 0")
    database.commit()
    database.close()
    with ParleyServer("--records", path):
        record, = records(path)
    assert record["end"]["reason"] == "server_lost" and len(record["turns"]) == 1


def test_two_servers_share_a_file(path):
    with ParleyServer("--records", path) as first, ParleyServer("--records", path) as second:
        for server in (first, second) * 3:
            assert server.talk("--text", "hello").returncode == 0
        assert len(eventually(
            lambda: len(all := [r for r in listed(path) if r["ended_at"]]) == 6 and all)) == 6


# ---- A file that cannot be written ----


def test_a_full_disk_is_not_felt_and_loses_nothing(path):
    with ParleyServer("--records", path) as server:
        assert server.talk("--text", "hello").returncode == 0
        eventually(lambda: [r for r in records(path) if r["ended_at"]])
        size = max(
            os.path.getsize(path + suffix) for suffix in ("", "-wal", "-shm")
            if os.path.exists(path + suffix))
        resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
        with typed(server, "x" * 20_000):
            pass
        eventually(lambda: int(server.metric("parley_record_failures_total")))
        assert int(server.metric("parley_record_queue_bytes")) > 20_000
        resource.prlimit(
            server.process.pid, resource.RLIMIT_FSIZE,
            (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        eventually(lambda: len([r for r in listed(path) if r["ended_at"]]) == 2)
        assert server.metric("parley_record_changes_refused_total") == "0"
    assert any(len(text) == 20_000 for _, text in said(records(path)[0]))


@pytest.mark.parametrize("place,words", [
    ("/nonexistent/records.db", "cannot be used"), (__file__, "cannot be used"),
])
def test_a_file_that_cannot_be_used_is_one_line(place, words):
    done = subprocess.run(
        [BINARY, "serve", "--port", "0", "--records", place], capture_output=True, text=True,
        timeout=HANG_GUARD, check=False)
    assert done.returncode != 0
    assert words in done.stderr.splitlines()[-1]


def test_the_command_says_what_is_missing(path):
    for arguments in (["list"], ["show", "sess_x"]):
        done = subprocess.run(
            [BINARY, "sessions", *arguments, "--records", path], capture_output=True, text=True,
            timeout=HANG_GUARD, check=False)
        assert done.returncode != 0 and len(done.stderr.splitlines()) == 1


# ---- PostgreSQL ----


@pytest.fixture(scope="module")
def database_server():
    with PostgreSQLServer() as server:
        yield server


@pytest.fixture
def postgresql(database_server):
    """A server that runs, with an empty database."""
    database_server.begin_anew()
    return database_server


def documents(postgresql):
    if not postgresql.query("SELECT to_regclass('parley_sessions')")[0]:
        return []
    return [
        json.loads(line)
        for line in postgresql.query("SELECT document FROM parley_sessions ORDER BY started_at")]


@needs_postgresql
def test_records_reach_postgresql(postgresql, tmp_path):
    spool = str(tmp_path / "spool.db")
    arguments = ["--records", postgresql.url, "--records-spool", spool]
    with ParleyServer(*arguments) as server:
        for text in ("hello", "nul \0 and \\u0000"):
            assert server.talk("--json", typed=text + "\n").returncode == 0
        eventually(lambda: len(documents(postgresql)) == 2)
        eventually(lambda: server.metric("parley_record_delivered_sessions_total") == "2")
        assert server.metric("parley_record_spooled_sessions") == "0"
    record = documents(postgresql)[0]
    assert said(record)[0] == ("user", "hello") and record["end"]["reason"] == "client_closed"
    first, = [session for session in listed(postgresql.url) if session["id"] == record["id"]]
    assert first["started_at"] == record["started_at"]
    assert "user  hello" in sessions("show", postgresql.url, record["id"])


@needs_postgresql
def test_the_answer_about_a_session_reaches_postgresql_with_its_record(postgresql, model, tmp_path):
    # `jsonb` takes neither half of a surrogate pair nor NUL.
    question = {"instructions": r'write {"a": "x\ud83d\u0000"}', "schema": {"type": "object"}}
    agents = tmp_path / "agents.yaml"
    agents.write_text(json.dumps([{"name": "desk", "after-call": question}]))
    with ParleyServer(
        "--records", postgresql.url, "--records-spool", str(tmp_path / "spool.db"), "--llm", model.url,
        "--agents", str(agents), "--default-agent", "desk", PARLEY_LLM_KEY="the-key",
    ) as server:
        with typed(server, "hello"):
            pass
        record, = eventually(lambda: documents(postgresql))
        assert server.metric("parley_record_spooled_sessions") == "0"
    assert record["after_call"] == {"data": {"a": "x\ufffd\ufffd"}}
    assert "after the call: " in sessions("show", postgresql.url, record["id"])


@needs_postgresql
def test_records_pass_a_pooler_that_knows_no_options(postgresql, tmp_path):
    """As PgBouncer's package configures it: `options` when connecting are refused."""
    with StrictPooler(postgresql.port) as pooler:
        url = f"postgres://parley@127.0.0.1:{pooler.port}/{postgresql.database}"
        with ParleyServer("--records", url, "--records-spool", str(tmp_path / "s.db")) as server:
            assert server.talk("--text", "hello").returncode == 0
            eventually(lambda: len(documents(postgresql)) == 1)
        assert len(listed(url)) == 1
    assert pooler.names and all("options" not in names for names in pooler.names)


@needs_postgresql
def test_what_the_url_of_the_database_says_wins(postgresql, tmp_path):
    postgresql.query("CREATE SCHEMA calls")
    options = "options=-csearch_path%3Dcalls%20-cstatement_timeout%3D4321&application_name=mine"
    arguments = ["--records", f"{postgresql.url}?{options}", "--records-spool", str(tmp_path / "s.db")]
    with ParleyServer(*arguments) as server:
        assert server.talk("--text", "hello").returncode == 0
        eventually(lambda: server.metric("parley_record_delivered_sessions_total") == "1")
        assert postgresql.query("SELECT count(*) FROM calls.parley_sessions") == ["1"]
        assert postgresql.query(
            "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'mine'") == ["1"]
    assert postgresql.query("SELECT to_regclass('public.parley_sessions')") == [""]


@needs_postgresql
def test_a_database_that_is_away_costs_no_record(postgresql, tmp_path):
    spool = str(tmp_path / "spool.db")
    arguments = ["--records", postgresql.url, "--records-spool", spool]
    with ParleyServer(*arguments) as server:
        assert server.talk("--text", "one").returncode == 0
        eventually(lambda: len(documents(postgresql)) == 1)
        postgresql.stop()
        assert server.talk("--text", "two").returncode == 0
        eventually(lambda: server.metric("parley_record_spooled_sessions") == "1")
        # A restart keeps what waits.
        server.process.send_signal(signal.SIGTERM)
        server.process.wait(HANG_GUARD)
    with ParleyServer(*arguments) as server:
        assert server.talk("--text", "three").returncode == 0
        postgresql.start()
        eventually(lambda: len(documents(postgresql)) == 3)
        eventually(lambda: server.metric("parley_record_spooled_sessions") == "0")
    assert [said(record)[0][1] for record in documents(postgresql)] == ["one", "two", "three"]


@needs_postgresql
def test_a_spool_at_its_limit_takes_no_new_sessions(postgresql, tmp_path):
    spool = str(tmp_path / "spool.db")
    postgresql.stop()
    arguments = [
        "--records", postgresql.url, "--records-spool", spool, "--records-spool-bytes",
        str(1 << 20)]
    with ParleyServer(*arguments) as server:
        for _ in range(12):
            with typed(server, "x" * 100_000):
                pass
        eventually(lambda: int(server.metric("parley_record_spool_bytes")) > 1 << 20)
        assert server.talk("--text", "hello").returncode == 0
        eventually(lambda: int(server.metric("parley_record_changes_refused_total")) > 0)


# ---- Over HTTP ----


def ask(server, path, method="GET"):
    """Asks as an operator of this machine; returns the status, and the answer's JSON where it has one."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=HANG_GUARD)
    with contextlib.closing(connection):
        connection.request(method, path)
        response = connection.getresponse()
        body = response.read()
    return response.status, json.loads(body) if body else None


def found(server, **query):
    status, page = ask(server, "/admin/records?" + urllib.parse.urlencode(query))
    assert status == 200, page
    return [row["id"] for row in page["data"]], page["next"]


def is_readable(server):
    """Whether the records can be read: a new database of PostgreSQL gets its tables after the start."""
    return ask(server, "/admin/records")[0] == 200


def check_library(server):
    """Holds two conversations, which are listed, found, shown and deleted."""
    eventually(lambda: is_readable(server))
    for text in ("where is box 7%", "say hello"):
        assert server.talk("--text", text).returncode == 0
        eventually(lambda text=text: found(server, search=text)[0])
    (newest, oldest), rest = found(server)
    assert rest is None
    assert found(server, search="BOX 7%") == ([oldest], None)
    assert found(server, search=newest[-6:]) == ([newest], None)
    assert found(server, search="input_text") == ([], None)
    first, rest = found(server, limit=1)
    assert first == [newest] and found(server, limit=1, after=rest) == ([oldest], None)
    status, record = ask(server, f"/admin/records/{oldest}")
    assert status == 200 and record["recordings"] == []
    document, = record["documents"]
    assert said(document)[0] == ("user", "where is box 7%") and len(document["turns"]) == 1
    assert ask(server, f"/admin/records/{oldest}", "DELETE") == (204, None)
    assert found(server) == ([newest], None)
    for method in ("GET", "DELETE"):
        assert ask(server, f"/admin/records/{oldest}", method)[0] == 404
    return oldest


def test_ended_sessions_are_found_and_deleted_over_http(path):
    with ParleyServer("--records", path) as server:
        deleted = check_library(server)
        with typed(server, "still here"):
            session, = eventually(lambda: [each["id"] for each in listed(path) if not each["ended_at"]])
            status, answer = ask(server, f"/admin/records/{session}", "DELETE")
            assert (status, answer["error"]["code"]) == (409, "session_open")
    assert deleted not in [session["id"] for session in listed(path)]


def check_deletion_is_told(*arguments):
    """One conversation is deleted, and the receiver of webhooks is told."""
    with WebhookReceiver() as receiver, ParleyServer(
        *arguments, "--webhook-url", receiver.url,
        "--webhook-events", "session.ended,session.deleted", PARLEY_WEBHOOK_SECRET=SECRET,
    ) as server:
        assert server.talk("--text", "hello").returncode == 0
        receiver.wait(lambda: receiver.events, HANG_GUARD)
        session = receiver.events[0][1]["data"]["session_id"]
        eventually(lambda: is_readable(server))
        eventually(lambda: found(server)[0] == [session])
        assert ask(server, f"/admin/records/{session}", "DELETE") == (204, None)
        receiver.wait(lambda: len(receiver.events) == 2, HANG_GUARD)
    assert receiver.types() == ["session.ended", "session.deleted"]
    assert receiver.events[1][1]["data"] == {"session_id": session}


def test_a_deletion_over_http_is_told_to_the_receiver_of_webhooks(path):
    check_deletion_is_told("--records", path)


@needs_postgresql
def test_a_deletion_in_postgresql_is_told_to_the_receiver_of_webhooks(postgresql, tmp_path):
    check_deletion_is_told(
        "--records", postgresql.url, "--records-spool", str(tmp_path / "spool.db"))


@needs_postgresql
def test_ended_sessions_are_found_and_deleted_in_postgresql(postgresql, tmp_path):
    arguments = ["--records", postgresql.url, "--records-spool", str(tmp_path / "s.db")]
    with ParleyServer(*arguments) as server:
        deleted = check_library(server)
        assert deleted not in [record["id"] for record in documents(postgresql)]
        # A database that is away is no reason to wait, and is asked again when it is back.
        postgresql.stop()
        status, answer = ask(server, "/admin/records")
        assert status == 503 and answer["error"]["code"].startswith("records_")
        postgresql.start()
        eventually(lambda: is_readable(server))


def test_one_caller_is_erased_at_the_command_line(path, tmp_path):
    keys = tmp_path / "keys"
    keys.write_text("k-of-anna-0123456789 name=anna\nk-of-bert-0123456789 name=bert\n")
    folder = tmp_path / "recordings"
    with ParleyServer("--records", path, "--api-keys-file", str(keys), "--recordings", "all",
                      "--recordings-folder", str(folder)) as server:
        for name in ("anna", "bert", "anna"):
            spoken = server.talk("--key", f"k-of-{name}-0123456789", "--text", "hello", "--out",
                                 str(tmp_path / "reply.wav"))
            assert spoken.returncode == 0, spoken
        eventually(lambda: sum(bool(each["ended_at"]) for each in listed(path)) == 3)
        eventually(lambda: len(list(folder.glob("*/*.opus"))) == 6)
        everybody = {each["id"] for each in listed(path)}

        def delete(*arguments):
            return subprocess.run(
                [BINARY, "sessions", "delete", "--records", path, "--recordings-folder", str(folder),
                 *arguments], text=True, capture_output=True, timeout=HANG_GUARD)

        asked = delete("--caller", "anna")
        assert asked.returncode == 0 and "nothing is deleted yet" in asked.stderr
        theirs = asked.stdout.split()
        assert len(theirs) == 2 and len(listed(path)) == 3
        # While the server runs.
        done = delete("--caller", "anna", "--yes")
        assert done.returncode == 0 and done.stdout.split() == theirs, done
        (left,) = [each["id"] for each in listed(path)]
        assert {left, *theirs} == everybody
        assert {file.name.split(".")[0] for file in folder.glob("*/*.opus")} == {left}
        for arguments, word in [
            (["--caller", "anna"], "no record of the caller anna"),
            (["sess_nobody", "--yes"], "no record of sess_nobody"),
            ([], "name sessions by their ids"),
        ]:
            refused = delete(*arguments)
            assert refused.returncode != 0 and word in refused.stderr, refused
        assert delete(left, "--yes").returncode == 0 and listed(path) == []


def check_erasure_is_told(settings, tmp_path):
    """One caller is erased by the command line with the server's own file: recordings, record, webhook."""
    keys = tmp_path / "keys"
    keys.write_text("k-of-anna-0123456789 name=anna\nk-of-bert-0123456789 name=bert\n")
    folder = tmp_path / "recordings"
    config = tmp_path / "parley.json"
    values = settings | {
        "api-keys-file": str(keys), "recordings": "all", "recordings-folder": str(folder),
        "webhook-events": "session.ended,session.deleted"}
    with WebhookReceiver() as receiver:
        values["webhook-url"] = receiver.url
        config.write_text(json.dumps(values))
        with ParleyServer("--config", str(config), PARLEY_WEBHOOK_SECRET=SECRET) as server:
            # The operator's environment has neither the secret nor the key that a provider names.
            values["providers"] = "name=brain url=http://127.0.0.1:9/v1 key-env=NO_SUCH_KEY models=brain"
            config.write_text(json.dumps(values))
            spoken = ["--out", str(tmp_path / "reply.wav")]
            for name, sound in (("anna", spoken), ("bert", [])):
                said = server.talk("--key", f"k-of-{name}-0123456789", "--text", "hello", *sound)
                assert said.returncode == 0, said
            receiver.wait(lambda: len(receiver.events) == 2, HANG_GUARD)
            theirs, other = [event[1]["data"]["session_id"] for event in receiver.events]
            eventually(lambda: len(listed(values["records"])) == 2)
            eventually(lambda: len(list(folder.glob("*/*.opus"))) == 2)
            command = [BINARY, "sessions", "delete", "--caller", "anna", "--config", str(config)]
            asked = subprocess.run(command, text=True, capture_output=True, timeout=HANG_GUARD)
            assert (asked.returncode, asked.stdout.split()) == (0, [theirs]), asked
            done = subprocess.run(
                [*command, "--yes"], text=True, capture_output=True, timeout=HANG_GUARD)
            assert (done.returncode, done.stdout.split()) == (0, [theirs]), done
            assert done.stderr.splitlines() == ["parley: 1 deleted"]
            receiver.wait(lambda: len(receiver.events) == 3, HANG_GUARD)
            assert [each["id"] for each in listed(values["records"])] == [other]
            assert not list(folder.glob("*/*.opus"))
    assert receiver.types()[2] == "session.deleted"
    assert receiver.events[2][1]["data"] == {"session_id": theirs}
    assert receiver.events[2][0] == f"msg_deleted_{theirs}"


def test_an_erasure_does_what_a_deletion_over_http_does(path, tmp_path):
    check_erasure_is_told({"records": path}, tmp_path)


@needs_postgresql
def test_an_erasure_in_postgresql_is_told_by_the_server(postgresql, tmp_path):
    check_erasure_is_told(
        {"records": postgresql.url, "records-spool": str(tmp_path / "spool.db")}, tmp_path)


def test_an_erasure_says_what_it_did_not_reach(path, tmp_path):
    with ParleyServer("--records", path) as server:
        assert server.talk("--text", "hello").returncode == 0
        session, = eventually(lambda: [each["id"] for each in listed(path) if each["ended_at"]])

    def delete(*arguments, **environment):
        done = subprocess.run(
            [BINARY, "sessions", "delete", session, *arguments], text=True, capture_output=True,
            timeout=HANG_GUARD, env=os.environ | environment)
        return done.returncode, done.stderr.splitlines()[-1]

    nothing_set = ("parley: not reached: recordings (no recordings-folder is set); "
                   "the receiver of webhooks (no webhook-url is set)")
    assert delete("--records", path) == (0, nothing_set)
    assert delete(PARLEY_RECORDS=path, PARLEY_RECORDINGS_URL="http://127.0.0.1:9/calls") == (0, nothing_set)
    config = tmp_path / "parley.yaml"
    config.write_text(f"records: {path}\n")
    assert delete("--config", str(config)) == (0, "parley: nothing is deleted yet: --yes deletes these 1")
    status, line = delete("--records", path, "--recordings-folder", str(tmp_path / "no"))
    assert status != 0 and "the recordings cannot be opened" in line and not (tmp_path / "no").exists()
    assert len(listed(path)) == 1
