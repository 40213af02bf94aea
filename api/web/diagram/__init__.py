"""The single-line diagram, drawn by the server as SVG: it needs no script to be read."""

from api.web.diagram.drawing import draw

__all__ = ["draw"]
