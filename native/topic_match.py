"""Whether a routing key matches a topic pattern.

Both are words separated by dots; in a pattern `*` stands for exactly one word and `#` for any number of them, none
included. The empty string has no words at all, so only "" and patterns made of `#` match it. A word may be empty:
"a..b" has three. The broker's trie is faster for many patterns; this is what it must agree with.
"""

from __future__ import annotations

from native import compiled_twin


def matches_plain(pattern: str, key: str) -> bool:
    """Whether the key matches the pattern. Takes at most (words of pattern) x (words of key) steps."""
    parts, words = _words(pattern), _words(key)
    part = word = 0
    # Where the last # stood, and the word up to which it reaches so far. When the rest does not match, # takes one
    # word more; an earlier # never has to be tried again, for whatever it could take this one can take too.
    hash_part, hash_word = -1, 0
    while word < len(words):
        if part < len(parts) and parts[part] == "#":
            hash_part, hash_word = part, word
            part += 1
        elif part < len(parts) and parts[part] in ("*", words[word]):
            part, word = part + 1, word + 1
        elif hash_part >= 0:
            hash_word += 1
            part, word = hash_part + 1, hash_word
        else:
            return False
    return all(rest == "#" for rest in parts[part:])


def _words(text: str) -> list[str]:
    return text.split(".") if text else []


matches = matches_plain

if (_twin := compiled_twin("topic_match")) is not None:
    matches = _twin.matches
