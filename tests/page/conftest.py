"""The browser and the opened page, for all tests of this folder."""

from page_in_browser import browser, look  # noqa: F401
