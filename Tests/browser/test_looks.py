"""How the page looks and whether everybody can use it: names, contrast, focus, narrow screens. Leaves
pictures in .build/browser/."""

import pytest
from playwright.sync_api import expect
from talking import RECORD_EVENTS, agent_turn, state, type_message

SIZES = {
    "phone": {"width": 375, "height": 780}, "tablet": {"width": 768, "height": 900},
    "desktop": {"width": 1280, "height": 720},
}

# Every visible text with less contrast than WCAG 2.2 AA asks for: 4.5, or 3 for large text. Text of
# disabled controls does not count.
POOR_CONTRAST = """() => {
    const channels = (color) => {
        const canvas = new OffscreenCanvas(1, 1).getContext("2d");
        canvas.fillStyle = color;
        canvas.fillRect(0, 0, 1, 1);
        return [...canvas.getImageData(0, 0, 1, 1).data];
    };
    const luminance = (color) => {
        const [r, g, b] = color.map((value) => value / 255)
            .map((value) => (value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4));
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    const background = (element) => {
        for (let each = element; each; each = each.parentElement) {
            const color = channels(getComputedStyle(each).backgroundColor);
            if (color[3] === 255) return color;
        }
        return channels("white");
    };
    const poor = [];
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    const seen = new Set();
    const judge = (element, color, text) => {
        const style = getComputedStyle(element);
        const [light, dark] = [luminance(channels(color)), luminance(background(element))]
            .sort((a, b) => b - a);
        const ratio = (light + 0.05) / (dark + 0.05);
        const size = parseFloat(style.fontSize);
        const isLarge = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700);
        if (ratio < (isLarge ? 3 : 4.5)) poor.push(`${text.trim()}: ${ratio.toFixed(2)}`);
    };
    while (walker.nextNode()) {
        const { parentElement: element, textContent: text } = walker.currentNode;
        if (!text.trim() || seen.has(element) || !element.checkVisibility()) continue;
        if (element.closest(":disabled, .unseen, script, noscript")) continue;
        seen.add(element);
        judge(element, getComputedStyle(element).color, text);
    }
    for (const field of document.querySelectorAll("input[placeholder]")) {
        judge(field, getComputedStyle(field, "::placeholder").color, field.placeholder);
    }
    return poor;
}"""

# Controls without a name, and visible controls that are smaller than 24 px.
POOR_CONTROLS = """() => {
    const poor = [];
    for (const control of document.querySelectorAll("button, input, select, textarea, summary, a")) {
        if (!control.checkVisibility()) continue;
        const labels = [...(control.labels ?? [])].map((label) => label.textContent.trim()).join("");
        const name = control.getAttribute("aria-label") || labels || control.textContent.trim();
        const shown = control.id || control.outerHTML.slice(0, 60);
        if (!name) poor.push(`${shown} has no name`);
        const box = (control.type === "checkbox" ? control.closest("label") : control)
            .getBoundingClientRect();
        if (box.left >= 0 && Math.min(box.width, box.height) < 24) poor.push(`${shown} is small`);
    }
    for (const region of document.querySelectorAll("[aria-labelledby], [aria-describedby]")) {
        for (const name of ["aria-labelledby", "aria-describedby"]) {
            const id = region.getAttribute(name);
            if (id && !document.getElementById(id)) poor.push(`${name} ${id} is missing`);
        }
    }
    const ids = [...document.querySelectorAll("[id]")].map((element) => element.id);
    for (const id of ids) if (ids.indexOf(id) !== ids.lastIndexOf(id)) poor.push(`${id} is there twice`);
    return poor;
}"""

# Visible texts and controls of which one lies on another, and texts that their own box cuts off. What a
# dialog or a card lies on is not looked at, nor what a scrolled box does not show.
POOR_BOXES = """() => {
    const poor = [];
    const name = (element) => element.id || element.textContent.trim().slice(0, 40) || element.outerHTML.slice(0, 60);
    const layer = (element) => {
        for (let each = element; each; each = each.parentElement) {
            if (["fixed", "sticky"].includes(getComputedStyle(each).position)) return each;
        }
        return null;
    };
    const shown = (element) => {
        const box = element.getBoundingClientRect();
        let { left, right, top, bottom } = box;
        for (let each = element.parentElement; each; each = each.parentElement) {
            if (getComputedStyle(each).overflow === "visible") continue;
            const frame = each.getBoundingClientRect();
            [left, right] = [Math.max(left, frame.left), Math.min(right, frame.right)];
            [top, bottom] = [Math.max(top, frame.top), Math.min(bottom, frame.bottom)];
        }
        return { element, left, right, top, bottom };
    };
    const hasText = (element) => [...element.childNodes].some(
        (node) => node.nodeType === Node.TEXT_NODE && node.textContent.trim());
    const open = document.querySelector("dialog[open]") ?? document.body;
    const boxes = [...open.querySelectorAll("*")].filter((element) =>
        element.checkVisibility() && !element.closest(".unseen, .skip, script, noscript, svg, option")
        && (hasText(element) || element.matches("button, input, select, textarea, canvas, summary")),
    ).map(shown).filter(({ left, right, top, bottom }) => right - left > 1 && bottom - top > 1);
    const isInline = (element) => getComputedStyle(element).display === "inline";
    boxes.forEach((one, index) => {
        const { element } = one;
        const style = getComputedStyle(element);
        if (hasText(element) && style.overflowX !== "auto" && style.textOverflow !== "ellipsis"
            && style.display !== "inline" && element.scrollWidth > element.clientWidth + 1
            && element.clientWidth > 0) poor.push(`${name(element)} is cut off`);
        for (const other of boxes.slice(index + 1)) {
            if (element.contains(other.element) || other.element.contains(element)) continue;
            // Parts of one paragraph, whose boxes are those of all their lines.
            if (isInline(element) && isInline(other.element)
                && element.closest("p, div") === other.element.closest("p, div")) continue;
            if (layer(element) !== layer(other.element)) continue;
            const width = Math.min(one.right, other.right) - Math.max(one.left, other.left);
            const height = Math.min(one.bottom, other.bottom) - Math.max(one.top, other.top);
            // Lines of one text may share a few pixels of their boxes.
            if (width > 2 && height > 4) poor.push(`${name(element)} lies on ${name(other.element)}`);
        }
    });
    return poor;
}"""


def check(page):
    """What holds in every state of the page."""
    assert page.evaluate(POOR_BOXES) == []
    assert page.evaluate(POOR_CONTRAST) == []
    assert page.evaluate(POOR_CONTROLS) == []
    # Nothing is wider than the screen, or than the dialog that it is in.
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert page.evaluate("""() => [...document.querySelectorAll("dialog[open]")].every(
        (dialog) => dialog.scrollWidth <= dialog.clientWidth)""")


def box(page, selector):
    """Where an element is."""
    return page.locator(selector).bounding_box()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", SIZES)
def test_the_page_can_be_read(open_page, pictures, size, scheme):
    page = open_page(
        script=RECORD_EVENTS, viewport=SIZES[size], color_scheme=scheme)
    check(page)
    page.screenshot(path=pictures / f"welcome-{size}-{scheme}.png")
    asked = [("What is Parley?", "speaks it."), ("What time is it?", "Get time answered: It is"),
             ("Please count to 20", "20.")]
    for question, answer in asked:
        type_message(page, question)
        expect(agent_turn(page)).to_contain_text(answer)
        state(page, "Speaking")
    # A part of the last reply is heard.
    page.wait_for_function("""() => window.sent.some(
        ({ audio_end_ms: ms, item_id: id }) => ms > 1000 && id === window.sent.at(-1).item_id)""")
    page.get_by_role("button", name="Stop the reply").click()
    expect(agent_turn(page).locator("del")).to_be_visible()
    page.get_by_role("button", name="Start talking").click()
    state(page, "You speak")
    check(page)
    log, turns = box(page, "#log"), box(page, "aside")
    if size == "desktop":
        assert log["x"] + log["width"] <= turns["x"]
    else:
        assert log["y"] + log["height"] <= turns["y"] + 1
    title, table = box(page, "#hops-title"), box(page, "#hops")
    if size == "desktop":
        assert title["y"] + title["height"] <= table["y"] and abs(title["x"] - table["x"]) <= 1
    page.screenshot(path=pictures / f"conversation-{size}-{scheme}.png")
    page.get_by_role("button", name="Settings").click()
    expect(page.get_by_role("dialog")).to_be_visible()
    check(page)
    page.screenshot(path=pictures / f"settings-{size}-{scheme}.png")
    page.get_by_role("button", name="Cancel").click()
    # An error is as easy to read.
    page.get_by_role("button", name="Microphone off").click()
    page.evaluate("""() => {
        navigator.mediaDevices.getUserMedia = async () => {
            throw new DOMException("", "NotAllowedError");
        };
    }""")
    page.get_by_role("button", name="Start talking").click()
    notice = page.get_by_role("alert")
    expect(notice).to_be_visible()
    check(page)
    # The text, and beside it what dismisses it.
    text, dismiss = box(page, "#notice-text"), box(page, "#dismiss")
    assert text["x"] + text["width"] <= dismiss["x"]
    assert dismiss["y"] < text["y"] + text["height"] and text["y"] < dismiss["y"] + dismiss["height"]
    page.screenshot(path=pictures / f"error-{size}-{scheme}.png")


@pytest.mark.parametrize("width", [320, 375])
def test_the_controls_are_one_row_on_a_phone(open_page, pictures, width):
    page = open_page(viewport={"width": width, "height": 480})
    page.get_by_role("button", name="Start talking").click()
    page.get_by_role("button", name="Mute").click()
    type_message(page, "Please count to 100")
    state(page, "Speaking")
    expect(page.get_by_role("button", name="Stop the reply")).to_be_visible()
    check(page)
    places = [box(page, control) for control in ("#talk", "#mute", "#stop")]
    middles = [place["y"] + place["height"] / 2 for place in places]
    assert max(middles) - min(middles) <= 1
    send = box(page, "#send")
    assert places[-1]["x"] + places[-1]["width"] <= send["x"] + send["width"] + 1
    page.screenshot(path=pictures / f"controls-{width}.png")
    expect(page.get_by_label("Message", exact=True)).to_be_in_viewport()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", SIZES)
def test_what_answers_can_be_read(open_page, pictures, size, scheme):
    page = open_page(viewport=SIZES[size], color_scheme=scheme)
    page.get_by_role("button", name="A demo agent answers").click()
    expect(page.get_by_role("dialog")).to_be_visible()
    check(page)
    page.screenshot(path=pictures / f"about-{size}-{scheme}.png")


def test_the_keyboard_reaches_everything_in_order(page):
    order = []
    for _ in range(14):
        page.keyboard.press("Tab")
        order.append(page.evaluate("""() => {
            const { activeElement: element } = document;
            const { outlineStyle } = getComputedStyle(element);
            if (outlineStyle === "none") return `${element.id} shows no focus`;
            return element.id || element.textContent.trim();
        }"""))
    assert order == [
        "Skip to the message field", "agent", "new", "Save", "open-settings", "log", "connect-model",
        "What is Parley?", "Count to 20", "What time is it?", "talk", "message", "send", order[-1],
    ]
    page.get_by_role("button", name="Settings").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("button", name="Listen")).to_be_focused()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_be_hidden()
    expect(page.get_by_role("button", name="Settings")).to_be_focused()


def test_the_document_is_marked_up(page):
    assert page.evaluate("document.documentElement.lang") == "en"
    for role in ("main", "banner", "contentinfo", "navigation", "complementary", "log", "status"):
        expect(page.get_by_role(role)).to_have_count(1)
    expect(page.get_by_role("heading", level=1)).to_have_count(1)
