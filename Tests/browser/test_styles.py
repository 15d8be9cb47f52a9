"""The stylesheets of the pages: Chromium takes every rule of them, every class that a page uses has a rule,
and no rule is for a class that no page has."""

import pathlib
import re

import pytest
import tinycss2

RESOURCES = pathlib.Path(__file__).resolve().parents[2] / "Sources/Server/Resources"
PAGES = {
    "index.html": ["app.js", *RESOURCES.glob("page/*.js")],
    "admin.html": ["admin.js", *RESOURCES.glob("admin/*.js"), RESOURCES / "page/log.js"],
}
# Classes by which scripts and tests find an element, and which look like their element.
HOOKS = {"call", "server", "sessions", "text", "try"}
# Classes that log.js takes from an entry's role.
ROLES = {"user", "assistant"}


def rules(text):
    """The rules of a stylesheet, those within @media too."""
    for node in tinycss2.parse_stylesheet(text, skip_comments=True, skip_whitespace=True):
        assert node.type != "error", f"line {node.source_line}: {node.message}"
        if node.type == "at-rule" and node.content and node.at_keyword in ("media", "supports"):
            yield from rules(tinycss2.serialize(node.content))
        elif node.type == "qualified-rule":
            yield node


def selector(rule):
    return tinycss2.serialize(rule.prelude).strip()


def sheets_of(page):
    names = re.findall(r'rel="stylesheet" href="([^"]+)"', (RESOURCES / page).read_text("utf-8"))
    assert names
    return names


def used_classes(page):
    html = (RESOURCES / page).read_text("utf-8")
    found = re.findall(r'class="([^"$]*)"', html)
    for name in PAGES[page]:
        script = (RESOURCES / name).read_text("utf-8")
        found += re.findall(r'class="([\w -]*)', script)
        for line in re.findall(r"className = ([^;]+);", script):
            found += re.findall(r'["`]([\w -]+)', line)
        found += re.findall(r'classList\.\w+\("([\w-]+)"', script)
        found += re.findall(r'make\("\w+", "([\w -]*)"', script)
    return {each for group in found for each in group.split()}


@pytest.mark.parametrize("name", sorted(path.name for path in RESOURCES.glob("*.css")))
def test_the_browser_takes_every_rule(page, name):
    wanted = []
    for rule in rules((RESOURCES / name).read_text("utf-8")):
        declarations = tinycss2.parse_blocks_contents(rule.content, skip_comments=True, skip_whitespace=True)
        for each in declarations:
            assert each.type == "declaration", f"{selector(rule)}: {each}"
        wanted.append([selector(rule), [
            [each.name, tinycss2.serialize(each.value).strip()] for each in declarations]])
    assert wanted
    refused = page.evaluate("""(rules) => {
        const isRefused = (selector) => {
            try {
                document.body.matches(selector);
                return false;
            } catch {
                return true;
            }
        };
        return rules.flatMap(([selector, declarations]) => [
            ...(isRefused(selector) ? [selector] : []),
            ...declarations.filter(([name, value]) => !CSS.supports(name, value))
                .map(([name, value]) => `${selector} { ${name}: ${value} }`),
        ]);
    }""", wanted)
    assert refused == []


@pytest.mark.parametrize("page_name", PAGES)
def test_every_class_of_a_page_has_a_rule(page_name):
    text = " ".join(
        selector(rule) for name in sheets_of(page_name)
        for rule in rules((RESOURCES / name).read_text("utf-8")))
    styled = set(re.findall(r"\.([A-Za-z][\w-]*)", text))
    assert used_classes(page_name) - styled - HOOKS == set()


def test_no_rule_is_for_a_class_that_no_page_has():
    used = ROLES.union(*(used_classes(page) for page in PAGES))
    # A script may take the class from a list of names.
    for scripts in PAGES.values():
        for name in scripts:
            used.update(re.findall(r'"([\w-]+)"', (RESOURCES / name).read_text("utf-8")))
    for sheet in RESOURCES.glob("*.css"):
        for rule in rules(sheet.read_text("utf-8")):
            unknown = set(re.findall(r"\.([A-Za-z][\w-]*)", selector(rule))) - used
            assert not unknown, f"{sheet.name}: {selector(rule)}"
