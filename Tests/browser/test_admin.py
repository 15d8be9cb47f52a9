"""The operator's page: who may open it, what it shows of sessions that speak, and what it asks before it closes
or drains. Leaves pictures in .build/browser/."""

import re

import pytest
from conftest import APP_KEY, OPERATOR_KEY
from parley_server import HANG_GUARD, ParleyServer, free_port
from playwright.sync_api import expect
from talking import agent_turn, sign_in, state, type_message
from test_looks import SIZES, check

# Opens sessions that do nothing, and keeps them.
OPEN_SESSIONS = """async ({ key, count, model }) => {
    window.kept ??= [];
    for (let index = 0; index < count; index += 1) {
        const socket = new WebSocket(`ws://${location.host}/v1/realtime?model=${model}`,
            ["realtime", ...(key ? [`openai-insecure-api-key.${key}`] : [])]);
        window.kept.push(socket);
        await new Promise((resolve, reject) => {
            socket.onmessage = resolve;
            socket.onclose = reject;
        });
    }
}"""


@pytest.fixture
def talker(open_page, guarded):
    """The conversation page, with an application's key."""
    page = open_page(server=guarded, waits=False, is_refused=True)
    page.get_by_label("Key", exact=True).fill(APP_KEY)
    page.keyboard.press("Enter")
    state(page, "Ready")
    return page


def rows(page):
    return page.locator("#sessions tbody tr")


def first_cells(page, column):
    """The texts of a column of the sessions."""
    return [cell.strip() for cell in page.locator(f"#sessions tbody td:nth-child({column})").all_inner_texts()]


def card(page):
    return page.get_by_role("complementary")


# ---- Access ----


def test_the_page_asks_for_an_operators_key(open_admin, guarded):
    page = open_admin(guarded)
    expect(page.get_by_label("Operator's key")).to_be_focused()
    expect(page.get_by_role("alert")).to_be_hidden()
    expect(page.get_by_role("main")).to_be_hidden()
    sign_in(page, "sk-wrong-0123456789abcdef0123")
    expect(page.get_by_role("alert")).to_contain_text("Incorrect API key")
    sign_in(page, APP_KEY)
    expect(page.get_by_role("alert")).to_contain_text("does not open that path")
    assert page.evaluate("sessionStorage.length") == 0
    sign_in(page, OPERATOR_KEY)
    state(page, "Live")
    expect(page.get_by_role("alert")).to_be_hidden()
    # The key is the tab's, and in no address.
    assert page.evaluate("[localStorage.length, sessionStorage.length, document.cookie]") == [0, 1, ""]
    assert OPERATOR_KEY not in page.url
    page.reload()
    state(page, "Live")
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_label("Operator's key")).to_be_visible()
    assert page.evaluate("sessionStorage.length") == 0


def test_without_keys_this_machine_needs_none(open_admin, parley):
    page = open_admin(parley)
    state(page, "Live")
    expect(page.get_by_role("button", name="Sign out")).to_be_hidden()
    expect(page.get_by_text("No model configured: the demo agent answers.")).to_be_visible()
    expect(page.get_by_text("No records are kept: start the server with")).to_be_visible()
    expect(page.get_by_text("has failed since the start.")).to_be_visible()


# ---- One session ----


def test_a_session_is_watched_and_closed(open_admin, guarded, talker):
    type_message(talker, "This page is new")
    expect(agent_turn(talker)).to_contain_text("You said: This page is new")
    page = open_admin(guarded, OPERATOR_KEY)
    expect(rows(page)).to_have_count(1)
    rows(page).first.get_by_role("button").click()
    # A row has the part of the id that differs, the card all of it.
    name = rows(page).first.get_by_role("button").get_attribute("title")
    assert name == "sess_" + rows(page).first.get_by_role("button").inner_text()
    expect(page.get_by_role("heading", name=name)).to_be_focused()
    # What was said before, and what is said now, by voice.
    expect(card(page).locator(".turn.user").first).to_contain_text("This page is new")
    expect(card(page).locator(".turn.assistant").first).to_contain_text("You said: This page is new")
    talker.get_by_role("button", name="Start talking").click()
    expect(page.locator("#card-state")).to_have_text("Speaking")
    expect(card(page).locator(".turn.user").nth(1)).to_contain_text("forward")
    expect(card(page).locator(".turn.assistant").nth(1)).to_contain_text("You said")
    expect(card(page).get_by_role("row", name=re.compile("^listening"))).to_be_visible()
    expect(page.locator("#card-facts")).to_contain_text(re.compile(r"Recognised\s*[\d,]+ ms"))
    talker.get_by_role("button", name="Microphone off").click()
    # A doubt changes nothing.
    close = page.get_by_role("button", name="Close the session…")
    close.click()
    expect(page.get_by_role("dialog")).to_contain_text(name)
    expect(page.get_by_role("button", name="Cancel")).to_be_focused()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_be_hidden()
    type_message(talker, "Still here")
    expect(card(page).locator(".turn.user").last).to_contain_text("Still here")
    close.click()
    page.get_by_role("dialog").get_by_role("button", name="Close the session").click()
    expect(page.locator("#card-state")).to_have_text("The session has ended.")
    expect(close).to_be_disabled()
    expect(rows(page).filter(has_text=name.removeprefix("sess_"))).to_have_count(0)
    page.keyboard.press("Escape")
    expect(card(page)).to_be_hidden()


def test_a_row_is_met_by_the_keyboard(open_admin, guarded, talker):
    page = open_admin(guarded, OPERATOR_KEY)
    button = rows(page).first.get_by_role("button")
    button.focus()
    name = button.inner_text()
    # Rows keep their places meanwhile.
    talker.evaluate(OPEN_SESSIONS, {"key": APP_KEY, "count": 3, "model": "any"})
    expect(page.locator("#range")).to_contain_text("of 4")
    expect(rows(page)).to_have_count(1)
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name=name)).to_be_focused()
    page.keyboard.press("Escape")
    expect(card(page)).to_be_hidden()
    expect(button).to_be_focused()
    talker.evaluate("window.kept.forEach((socket) => socket.close())")


# ---- Many sessions ----


def test_the_server_sorts_filters_and_turns_pages(open_admin, guarded, talker):
    for model, count in (("alpha", 60), ("beta", 55)):
        talker.evaluate(OPEN_SESSIONS, {"key": APP_KEY, "count": count, "model": model})
    type_message(talker, "Hello there")
    expect(agent_turn(talker)).to_contain_text("Hello")
    page = open_admin(guarded, OPERATOR_KEY)
    shown = page.locator("#range")
    turn = page.get_by_role("navigation", name="Pages of sessions").get_by_role("button", name="Next")
    expect(shown).to_have_text("1–50 of 116")
    expect(page.get_by_role("button", name="Previous")).to_be_disabled()
    turn.click()
    expect(shown).to_have_text("51–100 of 116")
    turn.click()
    expect(shown).to_have_text("101–116 of 116")
    expect(turn).to_be_disabled()
    page.get_by_role("button", name="Previous").click()
    expect(shown).to_have_text("51–100 of 116")
    page.get_by_role("button", name="First").click()
    expect(shown).to_have_text("1–50 of 116")
    page.get_by_role("button", name="Last").click()
    expect(shown).to_have_text("67–116 of 116")
    heading = page.locator("#sessions th[data-sort=id]")
    heading.get_by_role("button").click()
    expect(heading).to_have_attribute("aria-sort", "ascending")
    expect(shown).to_have_text("1–50 of 116")
    names = first_cells(page, 1)
    assert len(names) == 50 and names == sorted(names)
    heading.get_by_role("button").click()
    expect(heading).to_have_attribute("aria-sort", "descending")
    expect(rows(page)).to_have_count(50)
    assert first_cells(page, 1) == sorted(first_cells(page, 1), reverse=True)
    page.get_by_role("button", name="Turns").click()
    expect(rows(page).first.locator("td").nth(4)).to_have_text("1")
    page.get_by_label("Search in ids and models").fill("beta")
    expect(shown).to_have_text("1–50 of 55")
    assert set(first_cells(page, 8)) == {"beta"}
    page.get_by_label("State", exact=True).select_option("speaking")
    expect(page.get_by_text("No session fits.")).to_be_visible()
    talker.evaluate("window.kept.forEach((socket) => socket.close())")
    page.get_by_label("State", exact=True).select_option("")
    page.get_by_label("Search in ids and models").fill("")
    expect(shown).to_have_text("1–1 of 1")


# ---- The server ----


def test_a_server_is_drained_when_the_operator_is_sure(open_admin):
    with ParleyServer() as server:
        page = open_admin(server)
        state(page, "Live")
        page.get_by_role("button", name="Drain…").click()
        page.get_by_role("dialog").get_by_role("button", name="Cancel").click()
        expect(page.get_by_role("button", name="Drain…")).to_be_enabled()
        page.get_by_role("button", name="Drain…").click()
        page.get_by_role("dialog").get_by_role("button", name="Drain the server").click()
        state(page, "Lost; trying again")
        assert server.process.wait(HANG_GUARD) == 0


def test_the_page_comes_back_to_a_server_that_was_started_again(open_admin):
    port = free_port()
    with ParleyServer(port=port) as server:
        page = open_admin(server)
        state(page, "Live")
        node = page.locator("#node").inner_text()
    state(page, "Lost; trying again")
    expect(page.get_by_role("alert")).to_be_visible()
    with ParleyServer(port=port):
        state(page, "Live")
        expect(page.get_by_role("alert")).to_be_hidden()
        expect(page.locator("#node")).not_to_have_text(node)


# ---- Looks ----


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", SIZES)
def test_the_page_can_be_read(open_admin, guarded, talker, pictures, size, scheme):
    talker.evaluate(OPEN_SESSIONS, {"key": APP_KEY, "count": 12, "model": "any"})
    page = open_admin(guarded, viewport=SIZES[size], color_scheme=scheme)
    expect(page.get_by_label("Operator's key")).to_be_visible()
    check(page)
    page.screenshot(path=pictures / f"admin-key-{size}-{scheme}.png")
    sign_in(page, OPERATOR_KEY)
    expect(rows(page)).to_have_count(13)
    type_message(talker, "What time is it?")
    expect(agent_turn(talker)).to_contain_text("Get time answered")
    expect(page.get_by_role("img", name=re.compile("^Sessions over the last 5 minutes: now 13"))).to_be_visible()
    check(page)
    page.screenshot(path=pictures / f"admin-{size}-{scheme}.png", full_page=True)
    page.get_by_label("Search in ids and models").fill("parley")
    expect(rows(page)).to_have_count(1)
    rows(page).first.get_by_role("button").click()
    expect(card(page).locator(".turn.assistant").last).to_contain_text("Get time answered")
    expect(card(page).get_by_role("row", name=re.compile("^conversation"))).to_be_visible()
    check(page)
    page.screenshot(path=pictures / f"admin-card-{size}-{scheme}.png")
    page.get_by_role("button", name="Close the session…").click()
    check(page)
    page.screenshot(path=pictures / f"admin-confirm-{size}-{scheme}.png")
    talker.evaluate("window.kept.forEach((socket) => socket.close())")


def test_the_document_is_marked_up(open_admin, guarded):
    page = open_admin(guarded, OPERATOR_KEY)
    assert page.evaluate("document.documentElement.lang") == "en"
    expect(page.get_by_role("heading", level=1)).to_have_count(1)
    for name in ("Shards", "Sessions, a page at a time"):
        expect(page.get_by_role("table", name=re.compile(name))).to_have_count(1)
    # Behind the form of the key, Tab goes on from the form.
    page.reload()
    state(page, "Live")
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the sessions")).to_be_focused()
