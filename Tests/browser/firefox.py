"""Debian's Firefox ESR, driven over WebDriver BiDi (https://w3c.github.io/webdriver-bidi/), which an unchanged
Firefox speaks at a WebSocket of its own: no geckodriver.

Playwright speaks it as well, but begins each context with `emulation.setMediaFeaturesOverride`, which Firefox ESR
does not know."""

import contextlib
import itertools
import json
import os
import re
import shutil
import subprocess
import time

from parley_server import HANG_GUARD
from websockets.sync.client import connect

# A loudspeaker that nobody hears, at the pace of one, and no default configuration beside it.
LOUDSPEAKER = [
    "pulseaudio", "-n", "--exit-idle-time=-1", "--use-pid-file=no", "-v", "--log-target=stderr",
]
ANNOUNCEMENT = re.compile(r"WebDriver BiDi listening on (ws://\S+)")


class Firefox:
    """Headless, with a profile of its own in `folder`; ends with `close`."""

    def __init__(self, folder, preferences):
        path = shutil.which("firefox-esr") or shutil.which("firefox")
        assert path, "no firefox: run scripts/setup-apt.sh firefox"
        socket = folder / "loudspeaker"
        # Its log goes to a file: a full pipe would stop it.
        log = folder / "loudspeaker.log"
        self.loudspeaker = subprocess.Popen(
            [*LOUDSPEAKER, "-L", "module-null-sink",
             "-L", f"module-native-protocol-unix auth-anonymous=1 socket={socket}"],
            env=os.environ | {"HOME": str(folder), "XDG_RUNTIME_DIR": str(folder)},
            stdout=subprocess.DEVNULL, stderr=log.open("wb"))
        while not socket.exists():
            assert self.loudspeaker.poll() is None, log.read_text()
            time.sleep(0.01)
        (folder / "user.js").write_text("".join(
            f"user_pref({json.dumps(name)}, {json.dumps(value)});\n"
            for name, value in preferences.items()))
        self.process = subprocess.Popen(
            [path, "--headless", "--no-remote", "--remote-debugging-port=0", "--profile", folder],
            stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True,
            env=os.environ | {"HOME": str(folder), "PULSE_SERVER": f"unix:{socket}"})
        self.numbers = itertools.count(1)
        self.events = []
        self.resources = contextlib.ExitStack()
        self.connection = self.resources.enter_context(connect(
            f"{self.address()}/session", max_size=None, compression=None, proxy=None,
            open_timeout=HANG_GUARD, ping_timeout=None))
        self.ask("session.new", capabilities={})
        self.ask("session.subscribe", events=["log.entryAdded"])

    def address(self):
        for line in self.process.stderr:
            if found := ANNOUNCEMENT.search(line):
                return found[1]
        raise RuntimeError("firefox did not start")

    def close(self):
        self.resources.close()
        self.process.terminate()
        self.process.stderr.close()
        self.process.wait(HANG_GUARD)
        self.loudspeaker.terminate()
        self.loudspeaker.wait(HANG_GUARD)

    def ask(self, method, **parameters):
        """Sends a command, and returns its result."""
        number = next(self.numbers)
        self.connection.send(json.dumps(
            {"id": number, "method": method, "params": parameters}))
        while True:
            answer = json.loads(self.connection.recv(HANG_GUARD))
            if answer["type"] == "event":
                self.events.append(answer["params"])
            elif answer["id"] == number:
                assert answer["type"] == "success", answer
                return answer["result"]

    def open(self, address, script):
        """A tab with a page, in which the script has run first."""
        context = self.ask("browser.createUserContext")["userContext"]
        tab = self.ask("browsingContext.create", type="tab", userContext=context)["context"]
        self.ask("script.addPreloadScript", functionDeclaration=f"() => {{ {script} }}", contexts=[tab])
        self.ask("browsingContext.navigate", context=tab, url=address, wait="complete")
        return Tab(self, tab, context)

    def problems(self):
        """Errors of the pages' scripts since the last call."""
        events, self.events = self.events, []
        return [each.get("text") for each in events if each["level"] == "error"]


class Tab:
    """One page. Each script counts as the user's doing, so sound may start."""

    def __init__(self, firefox, name, context):
        self.firefox, self.name, self.context = firefox, name, context

    def close(self):
        self.firefox.ask("browser.removeUserContext", userContext=self.context)

    def run(self, body):
        """The value, as JSON, that the body of an async function returns."""
        answer = self.firefox.ask(
            "script.callFunction", target={"context": self.name}, awaitPromise=True,
            userActivation=True,
            functionDeclaration=f"async () => JSON.stringify(await (async () => {{ {body} }})() ?? null)")
        assert answer["type"] == "success", answer
        return json.loads(answer["result"]["value"])

    # As Playwright's page has it.
    def evaluate(self, function):
        return self.run(f"return ({function})();")

    def wait(self, condition):
        """Waits until an expression of the page is true."""
        self.run(f"""while (!({condition})) await new Promise((resolve) => setTimeout(resolve, 20));""")

    def state(self, name):
        self.wait(f"document.getElementById('state').textContent === {json.dumps(name)}")

    def click(self, identifier):
        self.run(f"document.getElementById({json.dumps(identifier)}).click();")

    def texts(self, selector):
        return self.run(
            f"return [...document.querySelectorAll({json.dumps(selector)})]"
            ".map((element) => element.textContent);")

    def type_message(self, text):
        self.run(f"""document.getElementById("message").value = {json.dumps(text)};
            document.getElementById("composer").requestSubmit();""")
