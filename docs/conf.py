"""Sphinx: MyST pages, the furo theme, the interface from the docstrings."""

from pylb import __version__

project = "pylb"
author = "the pylb authors"
copyright = "the pylb authors"
release = version = __version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.mathjax", "numpydoc"]
exclude_patterns = ["_build"]
html_theme = "furo"
html_title = f"pylb {__version__}"

numpydoc_show_class_members = False
autodoc_member_order = "bysource"
autodoc_typehints = "none"  # the docstrings have types, shapes and units
autodoc_default_options = {"members": True}
myst_enable_extensions = ["dollarmath", "fieldlist"]


def skip_described(app, what, name, member, skip, options):
    """Fields of named tuples and dataclasses: their class's docstring describes them."""
    return True if type(member).__name__ in ("_tuplegetter", "member_descriptor") else skip


def setup(app):
    app.connect("autodoc-skip-member", skip_described)
