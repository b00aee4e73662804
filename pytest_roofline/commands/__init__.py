"""The subcommands of ``roofline``. Each has `add_parser` and `run`: arguments to the text to print and the exit status.

What they need is imported when they run: ``roofline predict`` loads neither pytest nor a framework, and ``--help``
loads nothing at all.
"""
