"""Logs of evaluation harnesses: tell them by their content, read them, and turn their samples into records."""
