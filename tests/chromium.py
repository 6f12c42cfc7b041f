"""Headless Chromium for the tests of pages (tests/staircase.py, tests/drawn.py)."""
import base64
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time


class Failure(Exception):
    pass


def check(holds, words):
    if not holds:
        raise Failure(words)


class Browser:
    """Chromium on a pipe, with one tab.  Messages are JSON, each ended by a byte of 0 (Chrome DevTools Protocol)."""

    def __init__(self, program, profile, page):
        (their_in, self.out), (self.read, their_out) = os.pipe(), os.pipe()

        def give_pipes():
            ends = os.dup(their_in), os.dup(their_out)          # one of them may be 3 or 4
            os.dup2(ends[0], 3)
            os.dup2(ends[1], 4)

        # Nothing may be fetched, so the browser has no network at all.
        self.process = subprocess.Popen(
            [program, "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
             "--disable-sync", "--disable-component-update", "--proxy-server=127.0.0.1:9", "--hide-scrollbars",
             "--user-data-dir=" + profile, "--remote-debugging-pipe", "about:blank"],
            preexec_fn=give_pipes, pass_fds=(3, 4), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(their_in)
        os.close(their_out)
        self.page, self.session, self.calls, self.pending, self.events = page, None, 0, b"", []
        target = next(t for t in self.call("Target.getTargets")["targetInfos"] if t["type"] == "page")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in "Page", "Runtime", "Log", "Network":
            self.call(domain + ".enable")

    def message(self):
        while b"\0" not in self.pending:
            more = os.read(self.read, 1 << 20)
            check(more, "chromium ended")
            self.pending += more
        one, self.pending = self.pending.split(b"\0", 1)
        return json.loads(one)

    def call(self, method, **parameters):
        self.calls += 1
        request = {"id": self.calls, "method": method, "params": parameters}
        if self.session:
            request["sessionId"] = self.session
        data = json.dumps(request).encode() + b"\0"
        while data:
            data = data[os.write(self.out, data):]
        while True:
            answer = self.message()
            if answer.get("id") == self.calls:
                check("error" not in answer, "%s: %s" % (method, answer.get("error")))
                return answer["result"]
            self.events.append(answer)

    def run(self, script):
        """The value of an expression of the page, which may be a promise."""
        answer = self.call("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        check("exceptionDetails" not in answer, "%s: %s" % (script[:200], answer.get("exceptionDetails")))
        return answer["result"].get("value")

    def wait(self, condition, seconds=60):
        end = time.monotonic() + seconds
        while not self.run(condition):
            check(time.monotonic() < end, "%s does not become true" % condition)
            time.sleep(0.05)

    def open(self, hash=""):
        self.call("Page.navigate", url="about:blank")
        self.call("Page.navigate", url=self.page + hash)
        self.wait("document.readyState === 'complete' && location.protocol === 'file:'")

    def window(self, width, height=900, dark=False, media=""):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600)
        self.call("Emulation.setEmulatedMedia", media=media,
                  features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])

    def press(self, key):
        codes = {"Home": 36, "End": 35, "ArrowLeft": 37, "ArrowRight": 39, "PageUp": 33, "PageDown": 34, "Tab": 9}
        for kind in "keyDown", "keyUp":
            text = {"text": key} if len(key) == 1 and kind == "keyDown" else {}
            self.call("Input.dispatchKeyEvent", type=kind, key=key, windowsVirtualKeyCode=codes.get(key, ord(key[0].upper())), **text)

    def mouse(self, kind, x, y):
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", buttons=1, clickCount=1)

    def place(self, selector):
        """The middle of an element in the window, scrolled to if needed."""
        box = self.run("""(() => { const e = document.querySelector(%s); e.scrollIntoView({ block: "center" });
            const b = e.getBoundingClientRect(); return [b.x, b.y, b.width, b.height]; })()""" % json.dumps(selector))
        return box[0] + box[2] / 2, box[1] + box[3] / 2

    def click(self, selector):
        x, y = self.place(selector)
        self.mouse("mousePressed", x, y)
        self.mouse("mouseReleased", x, y)

    def screenshot(self):
        return base64.b64decode(self.call("Page.captureScreenshot", captureBeyondViewport=True)["data"])

    def check_quiet(self):
        """Nothing was logged, nothing thrown, and nothing but the page was asked for."""
        for event in self.events:
            method, what = event.get("method"), event.get("params", {})
            check(method not in ("Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded"), "the page logs %s" % what)
            if method == "Network.requestWillBeSent":
                url = what["request"]["url"]
                check(url.split("#")[0] in (self.page, "about:blank") or url.startswith("data:"), "the page asks for " + url)
        self.events = []

    def close(self):
        try:
            self.call("Browser.close")
        except (Failure, OSError):
            pass
        self.process.wait(timeout=30)


def run(test, program, page):
    """Calls test(browser, scratch), where scratch is a directory that goes.  A failure ends this process."""
    scratch = tempfile.mkdtemp()
    try:
        browser = Browser(program, scratch + "/profile", page)
        try:
            test(browser, scratch)
        finally:
            browser.close()
    except Failure as failure:
        sys.exit("%s: error: %s" % (os.path.relpath(sys.argv[0]), failure))
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
