"""Configuration of the documentation, built by ``make docs``."""

import dask_io

project = "Dask IO"
author = "Dask IO contributors"
copyright = "2026, Dask IO contributors"
version = release = dask_io.__version__

extensions = ["myst_nb", "numpydoc", "sphinx.ext.autodoc"]
exclude_patterns = ["_build"]
nitpicky = True

# Notebooks are kept without what they print, and run when they are shown.
nb_execution_mode = "force"
nb_execution_raise_on_error = True
# Other pages lead to headings.
myst_heading_anchors = 3
myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
numpydoc_show_class_members = False

html_theme = "pydata_sphinx_theme"
html_title = "Dask IO"
html_show_sourcelink = False
