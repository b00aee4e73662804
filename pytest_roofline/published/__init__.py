"""Results that somebody else's tool wrote down: a reader for each tool, the roof over each figure, and the verdict.

A reader knows one tool's layout and refuses what it does not know; it measures nothing and guesses nothing. What a
figure counts (one sequence or all, decode alone or a prompt too, one card or several) is part of what it reads.
"""
