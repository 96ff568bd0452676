"""Content-Security-Policy headers of the pages."""

from medallion.html.templating import script_source

# A page loads nothing from other hosts and runs one script, ours. Data Docs run none, in an origin of their own.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; form-action 'self'"
OURS = {"Content-Security-Policy": f"{_POLICY}; script-src {script_source()}"}
FRAMING = {"Content-Security-Policy": f"{OURS['Content-Security-Policy']}; frame-src 'self'"}
DATA_DOCS = {"Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; sandbox allow-popups"}

# A benchmark report has its own script, which applies the price that a reader types in.
BENCHMARK = {"Content-Security-Policy": f"{_POLICY}; script-src 'unsafe-inline'; sandbox allow-scripts"}
