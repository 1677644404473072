"""How a run looks on a terminal: Prefect's log lines, without tracebacks for errors that explain themselves."""

from __future__ import annotations

import logging

from nmt.errors import WmtflowError


class Explained(logging.Filter):
    """Drops log records about errors that the command will show as one message."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether to show a record."""
        error = record.exc_info[1] if record.exc_info else None
        if isinstance(error, WmtflowError):
            return False
        return not record.getMessage().startswith("Finished in state Failed")


def use() -> None:
    """Attach the filter to the handlers that write to the terminal; Prefect's server still gets every record."""
    from prefect.logging.configuration import setup_logging
    from prefect.logging.handlers import PrefectConsoleHandler

    setup_logging()
    loggers = [logging.getLogger(name) for name in ("", *logging.root.manager.loggerDict)]
    for handler in {handler for logger in loggers for handler in logger.handlers}:
        if isinstance(handler, PrefectConsoleHandler):
            handler.addFilter(Explained())
