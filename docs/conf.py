"""Configuration of the documentation, built by ``make docs``."""

from typing import Any

import dask_io

project = "Dask IO"
author = "Dask IO contributors"
copyright = "2026, Dask IO contributors"
version = release = dask_io.__version__

extensions = ["myst_nb", "numpydoc", "sphinx.ext.autodoc", "sphinx_click", "sphinx_copybutton"]
exclude_patterns = ["_build"]
nitpicky = True

# Notebooks are kept without what they print, and run when they are shown.
nb_execution_mode = "force"
nb_execution_raise_on_error = True
# Other pages lead to headings.
myst_heading_anchors = 3
myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
numpydoc_show_class_members = False

# The text of a docstring describes the types in words.
autodoc_typehints = "none"
autodoc_member_order = "bysource"
autodoc_default_options = {"members": True}

# Readers copy commands without the prompt.
copybutton_prompt_text = r"\$ |>>> |\.\.\. "
copybutton_prompt_is_regexp = True

html_theme = "pydata_sphinx_theme"
html_title = "Dask IO"
html_show_sourcelink = False
templates_path = ["_templates"]
html_sidebars = {"**": ["pages"]}
html_theme_options = {"show_toc_level": 2, "navigation_with_keys": False}

# Two dashes begin an option.
smartquotes = False


def show_examples(_app: Any, _context: Any, lines: list[str]) -> None:
    """Show the examples in the help of a command as code."""
    for i, line in enumerate(lines):
        if line.startswith("| Example"):
            code = [text.removeprefix("|") for text in lines[i + 1 :] if text.startswith("|")]
            rest = lines[i + 1 + len(code) :]
            lines[i:] = [line.removeprefix("| "), "", ".. code-block:: console", "", *code, *rest]
            return


def setup(app: Any) -> None:
    """Connect to the extension that documents commands."""
    app.connect("sphinx-click-process-description", show_examples)
