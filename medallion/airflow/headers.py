"""What a browser may do with our pages."""

from medallion.templating import script_source

# Nothing of a page comes from elsewhere, and it runs our one script. Data Docs run none, at an origin of their own.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; form-action 'self'"
OURS = {"Content-Security-Policy": f"{_POLICY}; script-src {script_source()}"}
FRAMING = {"Content-Security-Policy": f"{OURS['Content-Security-Policy']}; frame-src 'self'"}
DATA_DOCS = {"Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; sandbox allow-popups"}

# The report of a benchmark has a script of its own, for the price that a reader types in.
BENCHMARK = {"Content-Security-Policy": f"{_POLICY}; script-src 'unsafe-inline'; sandbox allow-scripts"}
