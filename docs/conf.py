"""Settings of Sphinx: MyST pages, the furo theme, docstrings, notebooks with stored outputs."""

import contextlib
import functools
import re
import shutil
import sys
from pathlib import Path

from docutils import nodes
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.errors import PycodeError
from sphinx.pycode import ModuleAnalyzer

from pylb import __version__

sys.path.insert(0, str(Path(__file__).parent))
import made

project = "pylb"
author = "the pylb authors"
copyright = "the pylb authors"
release = version = __version__

extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.autosummary", "numpydoc"]
autosummary_generate = False
exclude_patterns = ["_build", "_made", "jupyter_execute"]

# Sphinx reads only files below its own folder, so the notebooks are copied.  The pages show their
# stored outputs, which tools/notebooks.py makes.
here = Path(__file__).parent
shutil.rmtree(here / "_notebooks", ignore_errors=True)
shutil.copytree(here.parent / "notebooks", here / "_notebooks")
for copy in (here / "_notebooks").glob("*.ipynb"):  # there, the pages are one folder above
    copy.write_text(copy.read_text("utf-8").replace("(../docs/", "(../"), "utf-8")
made.everything(here / "_made")
nb_execution_mode = "off"
nb_merge_streams = True
# Show widgets as their last picture, because their scripts would be loaded from the network.
nb_mime_priority_overrides = [("html", "application/vnd.jupyter.widget-view+json", None)]
nb_ipywidgets_js: dict[str, dict[str, str]] = {}
html_math_renderer = "mathml"
html_theme = "furo"
html_static_path = ["static"]
html_css_files = ["pictures.css"]
html_title = f"pylb {__version__}"

numpydoc_show_class_members = False
autodoc_member_order = "bysource"
autodoc_typehints = "none"  # the docstrings have types, shapes and units
autodoc_default_options = {"members": True}
myst_enable_extensions = ["attrs_inline", "dollarmath", "fieldlist"]
myst_heading_anchors = 3


@functools.cache
def described():
    """Return the fields of named tuples that a comment ``#:`` describes, by identity."""
    found = set()
    for module in [m for name, m in sys.modules.items() if name.startswith("pylb.")]:
        with contextlib.suppress(PycodeError):  # a module of the C core
            for owner, name in ModuleAnalyzer.for_module(module.__name__).find_attr_docs():
                found.add(id(vars(getattr(module, owner, module)).get(name)))
    return found


def skip_undescribed(app, what, name, member, skip, options):
    """Skip fields of named tuples and dataclasses that have no comment ``#:``."""
    if type(member).__name__ in ("_tuplegetter", "member_descriptor"):
        return id(member) not in described()
    return skip


def mathematics(self, node):
    """Write formulas as MathML, which browsers draw without loading anything."""
    display = isinstance(node, nodes.math_block)
    text = tex2mathml(node.astext(), as_block=display)
    self.body.append(f'<div class="math">{text}</div>' if display else text)
    raise nodes.SkipNode


SCROLLED = ("<pre>", '<div class="table-wrapper', '<div class="math-wrapper')


def accessible(app, pagename, templatename, context, doctree):
    """Give captions a heading level, and make scrolling parts reachable by the keyboard."""
    for name in {"body", "furo_navigation_tree"} & context.keys():
        html = context[name].replace('role="heading"', 'role="heading" aria-level="2"')
        for tag in SCROLLED:
            first, rest = tag[:4], tag[4:]
            html = html.replace(tag, f'{first} tabindex="0"{rest}')
        context[name] = html


def additions(app, docname, source):
    """Add what is made: tables of names in docs/api, pictures in the gallery and of the plots."""

    def with_table(block):
        found = re.findall(r"^\.\. auto(?:class|function):: (\S+)", block[2], re.M)
        rows = "".join(f"   ~{name.removeprefix('pylb.')}\n" for name in found)
        table = f".. autosummary::\n   :nosignatures:\n\n{rows}\n" if len(found) > 1 else ""
        return f"{block[1]}{table}{block[2]}"

    if docname.startswith("api/"):
        source[0] = re.sub(r"(```{eval-rst}\n)(.*?```)", with_table, source[0], flags=re.S)
    source[0] = source[0].replace("](../notebooks/", "](_notebooks/")
    if docname in ("gallery", "plots"):
        source[0] = made.with_pictures(source[0], here / "_made")


def setup(app):
    app.add_html_math_renderer("mathml", (mathematics, None), (mathematics, None))
    app.connect("autodoc-skip-member", skip_undescribed)
    app.connect("source-read", additions)
    app.connect("html-page-context", accessible, priority=900)  # after the theme
