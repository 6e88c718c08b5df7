"""The WSGI application for gunicorn: each response is the bits of one step."""
from rounds import bits, step


def application(environment, start_response):
    number = int(environment["PATH_INFO"].strip("/") or 0)
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [bits(*step(number)).encode() + b"\n"]
