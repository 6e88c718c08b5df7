"""The data of the interactive page: docs/html-page.md."""
import base64
import gzip
import json
import re
import urllib.parse


def page_data(page):
    """The data in a page."""
    payload, = re.findall(r'id="payload">([A-Za-z0-9+/=]*)<', page)
    return json.loads(gzip.decompress(base64.b64decode(payload, validate=True)))


def page_in_frame(fragment):
    """The page in the frame that a notebook gets."""
    found = re.fullmatch(
        r'<iframe [^>]*? sandbox="allow-scripts" [^>]*? '
        r'src="data:text/html;charset=utf-8,([A-Za-z0-9%+/=]*)"></iframe>', fragment)
    assert found, fragment[:300]
    return urllib.parse.unquote(found[1])


def column_texts(data, column):
    """The texts of a column, of which a row with 0 has none."""
    return [data["strings"][number] for number in data["frames"][column]]
