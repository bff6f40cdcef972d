"""A backend of matplotlib that draws without a display and keeps every open figure as a file in output/, when `show` is
called and at the end of the script. It is imported by matplotlib alone."""

import atexit
import os
import sys

import matplotlib
from matplotlib._pylab_helpers import Gcf
from matplotlib.backend_bases import FigureManagerBase, _Backend
from matplotlib.backends.backend_agg import FigureCanvasAgg

FOLDER = os.path.abspath("output")
OWNER = os.getpid()
# Bytes of a picture that a result shows, unless the server was told otherwise.
SHOWN = 256 << 10
_count = 0


def draw(figure, path):
    """The figure as a file, and a smaller one beside it where a result would not show the first."""
    figure.savefig(path, format="png")
    size = os.path.getsize(path)
    dpi = matplotlib.rcParams["savefig.dpi"]
    dpi = figure.dpi if dpi == "figure" else float(dpi)
    small = path[: -len(".png")] + "-small.png"
    for _ in range(5):
        if size <= SHOWN:
            return
        dpi *= min(0.8, max(0.1, 0.9 * (SHOWN / size) ** 0.5))
        figure.savefig(small, format="png", dpi=dpi)
        size = os.path.getsize(small)
    if size > SHOWN:
        os.remove(small)


def keep(*_args, **_kwargs):
    """Writes the figures that have changed since they were written."""
    global _count
    if os.getpid() != OWNER:
        return
    for manager in Gcf.get_all_fig_managers():
        figure = manager.canvas.figure
        name = getattr(figure, "_kept_as", None)
        if name is not None and not figure.stale:
            continue
        if name is None:
            _count += 1
            name = figure._kept_as = "figure-%d.png" % _count
        try:
            os.makedirs(FOLDER, exist_ok=True)
            draw(figure, os.path.join(FOLDER, name))
        except Exception as error:
            print("a figure could not be kept as output/%s: %s" % (name, error), file=sys.stderr)
        figure.stale = False


@_Backend.export
class _Figures(_Backend):
    FigureCanvas = FigureCanvasAgg
    FigureManager = FigureManagerBase
    show = staticmethod(keep)


atexit.register(keep)
