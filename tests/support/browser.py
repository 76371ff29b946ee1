"""A headless Chromium that a test clicks through: the Chrome DevTools Protocol over a pipe, with
nothing but Python's standard library.

CHROMIUM=/path/to/browser chooses the browser; without one the tests are skipped."""
import base64
import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import time
import unittest

NAMES = ("chromium", "chromium-browser", "google-chrome")


def shown(value):
    """How a page shows a metric."""
    return "–" if value is None or value == -1 else f"{value:.3f}".replace("-0.000", "0.000")


def number(value):
    """How a page shows a count."""
    return f"{value:,}"


def find_browser():
    """The browser's path: $CHROMIUM, or one of the usual names; None where there is none."""
    return os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)


class Browser:
    """One page of a fresh profile. `problems` collects exceptions and console errors of the page."""

    def __init__(self, path, width=1440, height=1000):
        self.problems = []
        self.requests = []
        self._number = 0
        self._profile = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        to_browser, self._out = os.pipe()
        self._in, from_browser = os.pipe()

        def give_pipes():  # the protocol wants descriptors 3 and 4, which may be taken
            spare = os.dup(from_browser)
            os.dup2(os.dup(to_browser), 3)
            os.dup2(spare, 4)

        self._process = subprocess.Popen(
            [path, "--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe",
             "--disable-background-networking", "--no-first-run", "--hide-scrollbars",
             "--disable-dev-shm-usage", f"--user-data-dir={self._profile.name}",
             f"--window-size={width},{height}", "about:blank"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            close_fds=False, preexec_fn=give_pipes)
        os.close(to_browser)
        os.close(from_browser)
        self._buffer = b""
        self._session = None
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.send(domain + ".enable")
        self.resize(width, height)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        os.close(self._out)  # the browser ends with its pipe
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        os.close(self._in)
        self._profile.cleanup()

    def _receive(self):
        while b"\0" not in self._buffer:
            part = os.read(self._in, 1 << 16)
            if not part:
                raise RuntimeError("the browser ended")
            self._buffer += part
        text, self._buffer = self._buffer.split(b"\0", 1)
        message = json.loads(text)
        details = message.get("params", {})
        if message.get("method") == "Runtime.exceptionThrown":
            self.problems.append(str(details["exceptionDetails"]))
        elif message.get("method") == "Log.entryAdded" and details["entry"]["level"] == "error":
            self.problems.append(details["entry"]["text"])
        elif message.get("method") == "Runtime.consoleAPICalled" and details["type"] == "error":
            self.problems.append(str(details["args"]))
        elif message.get("method") == "Network.requestWillBeSent":
            self.requests.append(details["request"]["url"])
        return message

    def send(self, method, **parameters):
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._receive()
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]

    def open(self, address):
        self.send("Page.navigate", url=address)
        self.wait_for("location.href !== 'about:blank' && document.readyState === 'complete'")

    def evaluate(self, script):
        """The value of a JavaScript expression."""
        answer = self.send("Runtime.evaluate", expression=script, returnByValue=True,
                           awaitPromise=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(f"{script}: {answer['exceptionDetails']}")
        return answer["result"].get("value")

    def wait_for(self, script, seconds=20):
        end = time.monotonic() + seconds
        while not self.evaluate(script):
            if time.monotonic() > end:
                raise RuntimeError(f"never true: {script}")
            time.sleep(.02)

    def click(self, selector):
        """Presses the mouse in the middle of the element, as a user who has scrolled to it."""
        place = self.evaluate(f"""(() => {{
            const element = document.querySelector({json.dumps(selector)});
            if (!element) return null;
            element.scrollIntoView({{block: "center", inline: "center", behavior: "instant"}});
            const box = element.getBoundingClientRect();
            const x = box.x + box.width / 2, y = box.y + box.height / 2;
            const hit = document.elementFromPoint(x, y);
            return {{x, y, hit: element.contains(hit) || hit?.contains(element) || false}};
        }})()""")
        if not place or not place["hit"]:
            raise RuntimeError(f"cannot be clicked: {selector} {place}")
        for kind in ("mouseMoved", "mousePressed", "mouseReleased"):
            self.send("Input.dispatchMouseEvent", type=kind, x=place["x"], y=place["y"],
                      button="none" if kind == "mouseMoved" else "left", clickCount=1)

    def press(self, key, text=""):
        codes = {"Enter": 13, "Escape": 27, "Tab": 9, "ArrowLeft": 37, "ArrowUp": 38,
                 "ArrowRight": 39, "ArrowDown": 40, "Home": 36, "End": 35}
        for kind in ("keyDown", "keyUp"):
            self.send("Input.dispatchKeyEvent", type=kind, key=key, code=key,
                      windowsVirtualKeyCode=codes.get(key, 0), text=text if kind == "keyDown" else "")

    def type(self, text):
        self.send("Input.insertText", text=text)

    def resize(self, width, height):
        self.send("Emulation.setDeviceMetricsOverride", width=width, height=height,
                  deviceScaleFactor=1, mobile=False)

    def prefer_dark(self, dark):
        self.send("Emulation.setEmulatedMedia", features=[
            {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])

    def save_screenshot(self, path, whole=False):
        """PNG of what is in sight, or of the whole page."""
        image = self.send("Page.captureScreenshot", captureBeyondViewport=whole, **({"clip": {
            "x": 0, "y": 0, "width": self.evaluate("document.documentElement.clientWidth"),
            "height": self.evaluate("document.documentElement.scrollHeight"), "scale": 1}}
            if whole else {}))
        with open(path, "wb") as file:
            file.write(base64.b64decode(image["data"]))

    def save_pdf(self, path):
        pdf = self.send("Page.printToPDF", preferCSSPageSize=False, paperWidth=8.27, paperHeight=11.69)
        with open(path, "wb") as file:
            file.write(base64.b64decode(pdf["data"]))


HOSTILE = ["</script><script>window.hurt = 1</script>", "<img src=x onerror='window.hurt = 1'>",
           "bell\x07 & \u202ebidi"]


class PageTest(unittest.TestCase):
    """Pages in one browser, which may neither complain nor load anything from outside."""
    @classmethod
    def setUpClass(cls):
        path = find_browser()
        if path is None:
            raise unittest.SkipTest("no Chromium here: set CHROMIUM to its path")
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        cls.make_pages()
        cls.browser = Browser(path)
        cls.addClassCleanup(cls.browser.__exit__)

    @classmethod
    def make_pages(cls):
        """Writes what the tests open, below cls.folder."""

    def setUp(self):
        self.browser.problems.clear()
        self.browser.requests.clear()

    def tearDown(self):
        self.assertEqual(self.browser.problems, [])
        outside = [url[:80] for url in self.browser.requests
                   if not url.startswith(("file://" + str(self.folder.resolve()), "data:", "about:"))]
        self.assertEqual(outside, [])

    def open(self, page, address=""):
        self.browser.open("about:blank#")
        self.browser.open(page.resolve().as_uri() + address)

    def texts(self, selector):
        return self.browser.evaluate(
            f"[...document.querySelectorAll({json.dumps(selector)})].map((one) => one.textContent)")

    def text(self, selector):
        (only,) = self.texts(selector)
        return only

    def rows(self, selector):
        return self.browser.evaluate(f"""[...document.querySelectorAll({json.dumps(selector)})]
            .filter((row) => !row.hidden)
            .map((row) => [...row.children].map((cell) => cell.textContent))""")

    def check_names_stay_text(self):
        """Of a page of three classes with HOSTILE names."""
        self.assertEqual([row[0] for row in self.rows("#class-table tbody tr")],
                         [HOSTILE[0], HOSTILE[1], "bell  & \\u202ebidi"])
        self.assertEqual(self.browser.evaluate("window.hurt"), None)
        self.assertEqual(self.browser.evaluate("document.querySelectorAll('img[src=x]').length"), 0)

    def check_print_and_windows(self):
        """The page prints, has a dark look, and fits windows of any width."""
        path = self.folder / "page.pdf"
        self.browser.save_pdf(path)
        self.assertTrue(path.read_bytes().startswith(b"%PDF"))
        colour = "getComputedStyle(document.body).backgroundColor"
        light = self.browser.evaluate(colour)
        self.browser.prefer_dark(True)
        self.assertNotEqual(self.browser.evaluate(colour), light)
        self.browser.prefer_dark(False)
        for width in (360, 800, 1440, 2200):
            self.browser.resize(width, 900)
            self.assertLessEqual(self.browser.evaluate("document.documentElement.scrollWidth"), width)
        self.browser.resize(1440, 1000)
