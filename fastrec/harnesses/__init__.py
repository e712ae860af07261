"""Logs of evaluation harnesses: recognise and read them, and turn their samples into records."""
