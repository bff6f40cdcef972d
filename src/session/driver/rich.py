"""How values are shown: as text, and as pictures or documents where they know how to draw themselves."""

import base64
import json
import os
import sys

METHODS = (
    ("image/png", "_repr_png_"),
    ("image/jpeg", "_repr_jpeg_"),
    ("image/svg+xml", "_repr_svg_"),
    ("text/html", "_repr_html_"),
    ("text/markdown", "_repr_markdown_"),
    ("text/latex", "_repr_latex_"),
    ("application/json", "_repr_json_"),
)
SUFFIXES = {"image/png": "png", "image/jpeg": "jpg", "image/svg+xml": "svg", "text/html": "html", "text/markdown": "md",
            "text/latex": "tex", "application/json": "json"}
# Forms that are read as they are; the others are kept as files.
READABLE = ("text/markdown", "text/latex", "application/json")
# Pictures that one cell shows; more are kept as files only.
MOST_IMAGES = 8
# Values that one cell shows.
MOST_RESULTS = 100
# Bytes of a readable form in the result itself.
INLINE = 8192
FOLDER = "output"


class Rich:
    def __init__(self, setup, clean):
        self.clean = clean
        self.limit = setup["output_limit"]
        self.budget = setup["image_limit"]
        self.work = os.path.join(os.getcwd(), FOLDER)
        self.begin(0)

    def begin(self, cell):
        self.cell = cell
        self.files = 0
        self.images = 0
        self.left = self.limit
        self.results = []
        self.notes = []

    def note(self, text):
        if len(self.notes) < 20:
            self.notes.append(self.clean(text, 500))

    def text(self, text, limit):
        """Text within what is left for all values of the cell."""
        text = self.clean(text, max(200, min(limit, self.left)))
        self.left -= len(text)
        return text

    def show(self, value):
        if len(self.results) >= MOST_RESULTS:
            return self.note("only the first %d values are shown" % MOST_RESULTS)
        if is_figure(value):
            return self.figure(value)
        forms = [form for form in (self.form(*pair) for pair in forms_of(value)) if form]
        text = repr(value)
        self.results.append({"text": self.text(text, self.limit), "forms": forms})

    def figures(self):
        """Every open figure of pyplot; they are closed, so that the next cell starts with none."""
        pyplot = sys.modules.get("matplotlib.pyplot")
        if pyplot is None or not hasattr(pyplot, "get_fignums"):
            return
        for number in pyplot.get_fignums():
            figure = pyplot.figure(number)
            if not getattr(figure, "_shown_in_cell", None) == self.cell:
                self.figure(figure)
            pyplot.close(figure)

    def figure(self, figure):
        import io

        if len(self.results) >= MOST_RESULTS:
            return
        drawn = io.BytesIO()
        figure.savefig(drawn, format="png")
        figure._shown_in_cell = self.cell
        size = figure.get_size_inches()
        text = "<Figure %.3gx%.3g inches>" % (size[0], size[1])
        form = self.form("image/png", drawn.getvalue())
        self.results.append({"text": text, "forms": [form] if form else []})

    def form(self, media, data):
        if media in READABLE:
            text = data if isinstance(data, str) else json.dumps(data, default=repr)
            if len(text) <= INLINE:
                return {"media": media, "text": self.text(text, 4 * INLINE)}
            data = text
        if isinstance(data, str):
            data = data.encode("utf-8", "replace")
        path = self.keep(media, data)
        if path is None:
            return None
        form = {"media": media, "path": path, "size": len(data)}
        if media in ("image/png", "image/jpeg") and self.images < MOST_IMAGES:
            preview = self.preview(media, data)
            if preview is not None:
                self.images += 1
                form["preview_media"], form["preview"] = preview[0], base64.b64encode(preview[1]).decode()
        return form

    def keep(self, media, data):
        """Writes a file for the user; its path below the work directory."""
        self.files += 1
        name = "cell-%d-%d.%s" % (self.cell, self.files, SUFFIXES[media])
        try:
            os.makedirs(self.work, exist_ok=True)
            with open(os.path.join(self.work, name), "wb") as file:
                file.write(data)
        except OSError as error:
            return self.note("a result could not be kept as %s/%s: %s" % (FOLDER, name, error.strerror))
        return FOLDER + "/" + name

    def preview(self, media, data):
        """The picture within the budget, smaller where it has to be."""
        if len(data) <= self.budget:
            return media, data
        try:
            return smaller(data, self.budget)
        except ImportError:
            self.note("a picture of %d bytes is not shown, since Pillow is not there to make it smaller" % len(data))
        except Exception as error:
            self.note("a picture of %d bytes could not be made smaller: %s" % (len(data), error))
        return None


def is_figure(value):
    module = sys.modules.get("matplotlib.figure")
    return module is not None and isinstance(value, getattr(module, "Figure", ()))


def forms_of(value):
    """Pairs of media type and data that a value offers."""
    if isinstance(value, type):
        return
    kind = type(value)
    if kind.__module__.startswith("plotly.") and hasattr(kind, "to_html"):
        yield "text/html", value.to_html(include_plotlyjs="cdn")
        return
    seen = set()
    bundle = offered(value, "_repr_mimebundle_")
    if isinstance(bundle, tuple):
        bundle = bundle[0] if bundle else None
    if isinstance(bundle, dict):
        for media, data in bundle.items():
            if media in SUFFIXES and data is not None:
                seen.add(media)
                if media in ("image/png", "image/jpeg") and isinstance(data, str):
                    data = base64.b64decode(data)
                yield media, data
    for media, method in METHODS:
        if media in seen or (media == "image/jpeg" and "image/png" in seen):
            continue
        data = offered(value, method)
        if isinstance(data, tuple):
            data = data[0]
        if data is not None:
            seen.add(media)
            yield media, data


def offered(value, method):
    """What a method of the value's class gives; nothing where it fails, as notebooks do it."""
    if getattr(type(value), method, None) is None:
        return None
    try:
        return getattr(value, method)()
    except Exception:
        return None


def smaller(data, budget):
    import io

    from PIL import Image

    image = Image.open(io.BytesIO(data))
    image.load()
    if image.mode not in ("RGB", "RGBA", "L"):
        image = image.convert("RGBA")
    scale = (budget / len(data)) ** 0.5
    for _ in range(6):
        size = [max(1, int(side * scale)) for side in image.size]
        drawn = io.BytesIO()
        image.resize(size, reducing_gap=2.0).save(drawn, "PNG")
        if drawn.tell() <= budget:
            return "image/png", drawn.getvalue()
        scale *= 0.7
    raise ValueError("it stays too large")
