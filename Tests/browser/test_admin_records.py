"""Ended sessions on the operator's page: a conversation is held, found, read, heard and deleted; and what has
failed. Leaves pictures in .build/browser/."""

import contextlib
import json
import re
import sqlite3
import time

import pytest
import websockets.sync.client
from conftest import APP_KEY, OPERATOR_KEY, page_opener
from parley_server import HANG_GUARD, PATIENT_WEBSOCKET, ParleyServer
from playwright.sync_api import expect
from scripted_model import ScriptedModel
from talking import agent_turn, state, type_message
from test_looks import SIZES, check


class KeepingServer(ParleyServer):
    """A server that keeps records and recordings of all sessions, which end with their connections."""

    def __init__(self, folder, *arguments, **environment):
        keys = folder / "keys"
        keys.write_text(f"{APP_KEY} name=app\n{OPERATOR_KEY} name=ops operator\n", encoding="utf-8")
        self.records = folder / "records.db"
        self.recordings = folder / "recordings"
        super().__init__(
            *arguments, PARLEY_WARM_MODELS="true", PARLEY_API_KEYS_FILE=str(keys),
            PARLEY_RECORDS=str(self.records), PARLEY_RECORDINGS="all",
            PARLEY_RECORDINGS_FOLDER=str(self.recordings), PARLEY_RESUME_WINDOW_MS="0", **environment)

    def kept_rows(self, session):
        """How many rows the file has of a session."""
        places = (("sessions", "id"), ("items", "session"), ("turns", "session"), ("uses", "session"))
        with contextlib.closing(sqlite3.connect(self.records)) as database:
            return [
                database.execute(f"SELECT COUNT(*) FROM {table} WHERE {column} = ?", (session,)).fetchone()[0]
                for table, column in places]

    def wait_for(self, count):
        """Waits until the file has so many ended sessions."""
        deadline = time.monotonic() + HANG_GUARD
        question = "SELECT COUNT(*) FROM sessions WHERE ended_ms IS NOT NULL"
        with contextlib.closing(sqlite3.connect(self.records)) as database:
            while database.execute(question).fetchone()[0] < count:
                assert time.monotonic() < deadline, f"there are no {count} ended sessions"
                time.sleep(0.05)

    def kept_files(self, session):
        """Its recordings, also those that are being written."""
        return sorted(path.name for path in self.recordings.glob(f"*/{session}.*"))


def converse(open_page, server, *questions):
    """Holds a conversation by voice, then types questions, and leaves. Each question has what its turn shows."""
    page = open_page(server=server, waits=False, is_refused=True)
    page.get_by_label("Key", exact=True).fill(APP_KEY)
    page.keyboard.press("Enter")
    state(page, "Ready")
    page.get_by_role("button", name="Start talking").click()
    expect(page.locator(".turn.user").first).to_contain_text("forward")
    expect(agent_turn(page)).to_contain_text("forward")
    page.get_by_role("button", name="Microphone off").click()
    # Each reply is heard to its end: one that is cut off by the client's leaving has no turn.
    state(page, "Ready")
    for question, shown in questions:
        type_message(page, question)
        expect(page.locator("#log")).to_contain_text(shown)
        state(page, "Ready")
    page.context.close()


def rows(page):
    return page.locator("#records tbody tr")


def card(page):
    return page.get_by_role("complementary")


def search(page):
    return page.get_by_label("Search in ids, facts and what was said")


@pytest.fixture
def keeping(tmp_path):
    with KeepingServer(tmp_path) as server:
        yield server


def test_an_ended_session_is_found_heard_and_deleted(open_page, open_admin, keeping):
    page = open_admin(keeping, OPERATOR_KEY)
    expect(page.get_by_text("No session has ended yet.")).to_be_visible()
    converse(open_page, keeping, ("This page is new", "You said: This page is new"))
    # It comes by itself.
    expect(rows(page)).to_have_count(1)
    button = rows(page).first.get_by_role("button")
    session = button.get_attribute("title")
    assert session == f"sess_{button.inner_text()}"
    search(page).fill("no such words")
    expect(page.get_by_text("No ended session fits.")).to_be_visible()
    search(page).fill("GO forward")
    expect(rows(page)).to_have_count(1)
    rows(page).first.get_by_role("button").click()
    expect(page.get_by_role("heading", name=session)).to_be_focused()
    # What was said.
    expect(page.locator("#record-state")).to_contain_text("Ended: ")
    expect(card(page).locator(".turn.user").first).to_contain_text("forward")
    expect(card(page).locator(".turn.user").last).to_contain_text("This page is new")
    expect(page.locator("#record-facts")).to_contain_text(re.compile(r"User heard\s*\d+\.\d s"))
    check_hops(card(page).locator(".turns li"))
    # The recording: both sides, which play together.
    page.get_by_role("button", name="Play the recording").click()
    expect(page.get_by_label(f"Recording {session}")).to_be_visible()
    page.wait_for_function("""() => {
        const [user, agent] = document.querySelectorAll("audio");
        return user?.duration > 3 && Math.abs(user.duration - agent.duration) < 0.1
            && user.currentTime > 0.5 && agent.currentTime > 0;
    }""")
    assert keeping.kept_files(session) == [f"{session}.agent.opus", f"{session}.user.opus"]
    # A doubt deletes nothing.
    remove = page.get_by_role("button", name="Delete the session…")
    remove.click()
    expect(page.get_by_role("dialog")).to_contain_text(session)
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_be_hidden()
    assert all(keeping.kept_rows(session))
    remove.click()
    page.get_by_role("dialog").get_by_role("button", name="Delete the session").click()
    expect(card(page)).to_be_hidden()
    expect(rows(page)).to_have_count(0)
    assert not any(keeping.kept_rows(session))
    assert keeping.kept_files(session) == []
    search(page).fill("")
    expect(page.get_by_text("No session has ended yet.")).to_be_visible()


def check_hops(turns):
    """A spoken turn and a typed one: their hops are in order, and each begins where the one before has ended."""
    # A turn that was taken back, because the user spoke on, has no sound. On a busy machine the turn behind it
    # may go on with its words or its token, so that one hop is not its own.
    spoken = turns.filter(has_text="First sound").first
    expect(spoken).to_be_visible()
    names = spoken.locator(".hop span:first-child").all_inner_texts()
    assert len(names) >= 2 and names == [
        name for name in ("Recognised", "First token", "First sound") if name in names]
    # A typed turn waits for no words, and its sound is not measured.
    assert turns.last.locator(".hop span:first-child").all_inner_texts() == ["First token"]
    bars = spoken.locator("rect").evaluate_all(
        "(bars) => bars.map((bar) => [bar.x.baseVal.value, bar.width.baseVal.value])")
    assert bars[0][0] == 0 and all(width > 0 for _, width in bars)
    starts = [start for start, _ in bars]
    assert starts == sorted(starts)
    assert max(start + width for start, width in bars) <= 101


def test_words_that_were_not_heard_are_struck_through(open_page, open_admin, keeping):
    talker = open_page(server=keeping, waits=False, is_refused=True)
    talker.get_by_label("Key", exact=True).fill(APP_KEY)
    talker.keyboard.press("Enter")
    state(talker, "Ready")
    # A reply that no machine has said to its end when its last word is shown.
    type_message(talker, "Please count, and then go on counting, " * 12 + "up to 20")
    expect(agent_turn(talker)).to_contain_text("20")
    talker.get_by_role("button", name="Stop the reply").click()
    expect(agent_turn(talker).locator("del")).to_contain_text("20")
    state(talker, "Ready")
    talker.context.close()
    page = open_admin(keeping, OPERATOR_KEY)
    rows(page).first.get_by_role("button").click()
    expect(card(page).locator(".turns")).to_contain_text("Interrupted")
    expect(card(page).locator(".turn.assistant del")).to_contain_text("20")


def test_older_sessions_are_shown_when_asked_for(open_admin, keeping):
    headers = {"Authorization": f"Bearer {APP_KEY}"}
    for _ in range(55):
        with websockets.sync.client.connect(
            keeping.realtime_url, additional_headers=headers, **PATIENT_WEBSOCKET
        ) as socket:
            socket.recv()
    keeping.wait_for(55)
    page = open_admin(keeping, OPERATOR_KEY)
    expect(rows(page)).to_have_count(50)
    page.get_by_role("button", name="Show older ones").click()
    expect(rows(page)).to_have_count(55)
    expect(page.get_by_role("button", name="Show older ones")).to_be_hidden()
    began = rows(page).evaluate_all("(rows) => rows.map((row) => row.dataset.began)")
    assert began == sorted(began, reverse=True)


# ---- Failures and looks ----


@pytest.fixture(scope="module")
def troubled(tmp_path_factory, browser):
    """A server with one ended conversation, of which its model has refused a turn, and told what was wanted."""
    folder = tmp_path_factory.mktemp("kept")
    agents = folder / "agents.yaml"
    question = {"instructions": 'write {"wants_table": true, "name": "Ann"}', "schema": {"type": "object"}}
    agents.write_text(json.dumps([{"name": "desk", "after-call": question}]), encoding="utf-8")
    with ScriptedModel() as model:
        arguments = ["--llm", model.url, "--model", "scripted", "--service-retries", "0",
                     "--agents", str(agents), "--default-agent", "desk"]
        with KeepingServer(folder, *arguments, PARLEY_LLM_KEY="the-key") as server:
            with page_opener(browser, server, permissions=["microphone"]) as open_page:
                converse(
                    open_page, server, ("Tell me where box 7 is", "Tell me where box 7 is"),
                    ("refuse", "refuse"), ("Are you still there?", "Are you still there?"))
            yield server


def test_failures_lead_to_their_session(open_admin, troubled):
    page = open_admin(troubled, OPERATOR_KEY)
    failures = page.locator("#failures tbody tr")
    service = failures.filter(has_text="Service llm")
    expect(service).to_contain_text("out of order")
    expect(page.get_by_role("link", name=re.compile(r"^Failures \(\d\)$"))).to_be_visible()
    expect(rows(page).first).to_contain_text("1 failed")
    failures.filter(has_text="Response").get_by_role("button").click()
    expect(card(page).locator(".turns")).to_contain_text("Failed: ")
    expect(card(page).locator(".turn.user").filter(has_text="box 7")).to_be_visible()
    page.keyboard.press("Escape")
    expect(card(page)).to_be_hidden()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", SIZES)
def test_an_ended_session_can_be_read(open_admin, troubled, pictures, size, scheme):
    page = open_admin(troubled, OPERATOR_KEY, viewport=SIZES[size], color_scheme=scheme)
    expect(rows(page)).to_have_count(1)
    expect(page.locator("#failures")).to_be_visible()
    check(page)
    page.screenshot(path=pictures / f"admin-records-{size}-{scheme}.png", full_page=True)
    rows(page).first.get_by_role("button").click()
    expect(page.locator("#record-answer")).to_contain_text("wants_table: true\nname: Ann")
    page.get_by_role("button", name="Play the recording").click()
    expect(page.locator("audio").first).to_be_visible()
    expect(card(page).locator(".turn.user").last).to_contain_text("still there")
    check(page)
    page.screenshot(path=pictures / f"admin-record-{size}-{scheme}.png")
    # The rest of the card, scrolled to.
    page.get_by_role("button", name="Delete the session…").scroll_into_view_if_needed()
    card(page).evaluate("(card) => card.scrollTo(0, card.scrollHeight)")
    check(page)
    page.screenshot(path=pictures / f"admin-record-end-{size}-{scheme}.png")
