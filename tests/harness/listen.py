"""Programs under test that hear Ctrl-C wherever the tests run.

A shell without job control starts what is in its background with SIGINT ignored, and everything below inherits that.
"""

LISTEN = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"
