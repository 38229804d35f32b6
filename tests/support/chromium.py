"""A headless Chromium for tests of pages, spoken to by the DevTools protocol over two pipes."""

import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
from contextlib import contextmanager

FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--remote-debugging-pipe", "--hide-scrollbars",
)  # fmt: skip
PATIENCE_S = 60


def executable():
    """The browser's path, None where there is none."""
    return shutil.which("chromium") or shutil.which("chromium-browser")


class Page:
    """One open page. What it logs, fails at and asks the network for is collected."""

    def __init__(self, commands, replies):
        self.commands, self.replies = commands, replies
        self.number, self.buffer, self.session = 0, b"", None
        self.errors, self.requests, self.loaded = [], [], False
        target = self("Target.createTarget", url="about:blank")["targetId"]
        self.session = self("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self(f"{domain}.enable")

    def __call__(self, method, **params):
        """Sends a command; its result."""
        self.number += 1
        message = {"id": self.number, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.commands, json.dumps(message).encode() + b"\0")
        while (reply := self._next()).get("id") != self.number:
            self._note(reply)
        assert "error" not in reply, (method, reply["error"])
        return reply["result"]

    def open(self, url, width=1280, height=900, dark=False, media=""):
        """Loads a page in a window of so many CSS pixels."""
        self.resize(width, height, dark, media)
        self.errors.clear(), self.requests.clear()
        self.loaded = False
        self("Page.navigate", url=url)
        while not self.loaded:
            self._note(self._next())

    def resize(self, width, height, dark=False, media=""):
        self("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self("Emulation.setEmulatedMedia", media=media, features=[scheme])

    def js(self, expression):
        """The value of a JavaScript expression; a promise is waited for."""
        answer = self("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def screenshot(self, path, whole=True):
        """A PNG of the page, all of it or what is in the window."""
        shot = self("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(shot["data"]))

    def pdf(self, path):
        """What a printer would get, on A4."""
        sheet = self(
            "Page.printToPDF", printBackground=True, paperWidth=8.27, paperHeight=11.69, preferCSSPageSize=True
        )
        path.write_bytes(base64.b64decode(sheet["data"]))

    def _note(self, event):
        method, params = event.get("method"), event.get("params", {})
        if method == "Page.loadEventFired":
            self.loaded = True
        elif method == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])
        elif method == "Runtime.exceptionThrown":
            self.errors.append(params["exceptionDetails"]["text"])
        elif method == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
            self.errors.append(params["entry"]["text"])
        elif method == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning", "assert"):
            self.errors.append(str(params["args"]))

    def _next(self):
        while b"\0" not in self.buffer:
            assert select.select([self.replies], [], [], PATIENCE_S)[0], "the browser does not answer"
            data = os.read(self.replies, 1 << 20)
            assert data, "the browser has gone"
            self.buffer += data
        message, _, self.buffer = self.buffer.partition(b"\0")
        return json.loads(message)


@contextmanager
def chromium():
    """A browser with an empty profile; a :class:`Page`."""
    to_browser, commands = os.pipe()
    replies, from_browser = os.pipe()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        # The browser reads its commands from file descriptor 3 and answers on 4.
        script = f'exec "$0" "$@" 3<&{to_browser} 4>&{from_browser}'
        process = subprocess.Popen(
            ["bash", "-c", script, executable(), *FLAGS, f"--user-data-dir={profile}", "about:blank"],
            pass_fds=(to_browser, from_browser), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        os.close(to_browser), os.close(from_browser)
        try:
            yield Page(commands, replies)
        finally:
            os.close(commands), os.close(replies)
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
