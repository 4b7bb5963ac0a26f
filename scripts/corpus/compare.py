"""What differs between two recordings, so that one cause is one block.

An answer that differs is taken apart into its changes: a status, a header, a member of a body, a line
of a text, and in a sentence the words that changed. Answers that have a change in common are shown
together, however many there are.
"""

import difflib
import json
import re
from collections import defaultdict

EXAMPLES = 3
MAX_LISTED = 12


def load(path):
    with open(path, encoding="utf-8") as file:
        lines = [json.loads(line) for line in file]
    return {line["id"]: line for line in lines}


def compare(old_path, new_path):
    """Prints every difference; the exit status."""
    old, new = load(old_path), load(new_path)
    blocks = defaultdict(list)
    for name in old.keys() | new.keys():
        if name not in new or name not in old:
            line, where = (old[name], "the old") if name in old else (new[name], "the new")
            blocks[f"only in {where} recording: section {name.rsplit(' ', 1)[0]}"].append((name, line))
            continue
        if old[name]["request"] != new[name]["request"]:
            for change in changes("request", old[name]["request"], new[name]["request"]):
                blocks[f"requested otherwise, {change}"].append((name, new[name]))
        for change in changes("", old[name]["response"], new[name]["response"]):
            blocks[change].append((name, new[name]))
    order = sorted(blocks.items(), key=lambda it: (-len(it[1]), it[0]))
    for change, lines in order:
        show(change, sorted(lines, key=lambda it: position(it[0])))
    differing = {name for lines in blocks.values() for name, _ in lines}
    if not blocks:
        print(f"{len(old)} answers, all equal")
        return 0
    print(f"{len(differing)} of {len(old)} answers differ, in {len(blocks)} ways")
    return 1


def position(name):
    section, number = name.rsplit(" ", 1)
    return section, int(number)


def show(change, lines):
    print(f"== {change}")
    wheres = defaultdict(int)
    for _, line in lines:
        request = line["request"]
        wheres[request.get("route") or request.get("command",
            "").split(" --")[0] or request.get("what") or request.get("target", "")[:60]] += 1
    count = len(lines)
    shown = [f"{where} ×{number}" for where, number in sorted(wheres.items(), key=lambda it: -it[1])]
    more = f", and {len(shown) - MAX_LISTED} more" if len(shown) > MAX_LISTED else ""
    print(f"   {count} answer{'s' if count > 1 else ''}: {', '.join(shown[:MAX_LISTED])}{more}")
    for name, line in lines[:EXAMPLES]:
        request = json.dumps(line["request"], ensure_ascii=False)
        print(f"   e.g. {name}: {request[:240]}")
    print()


def changes(path, old, new):
    """What changed between two values, each as a text that others can have too."""
    if old == new:
        return []
    if isinstance(old, dict) and isinstance(new, dict):
        out = []
        for name in [*old, *(it for it in new if it not in old)]:
            below = f"{path}.{name}" if path else name
            if name not in new:
                out.append(f"{below}: {short(old[name])} is gone")
            elif name not in old:
                out.append(f"{below}: {short(new[name])} is new")
            else:
                out += changes(below, old[name], new[name])
        # The same members in another order are another text.
        return out or [f"{path}: members are in another order: {', '.join(old)} → {', '.join(new)}"]
    if isinstance(old, list) and isinstance(new, list):
        if path.endswith("headers"):
            return header_changes(path, old, new)
        if len(old) != len(new):
            return [f"{path or 'answers'}[]: {len(old)} → {len(new)} of them"]
        # Each of several answers on a connection is an answer like any other.
        below = f"{path}[]" if path else ""
        return unique(it for one, other in zip(old, new) for it in changes(below, one, other))
    if isinstance(old, str) and isinstance(new, str):
        return text_changes(path, old, new)
    return [f"{path}: {short(old)} → {short(new)}"]


def unique(items):
    return list(dict.fromkeys(items))


def header_changes(path, old, new):
    def by_name(headers):
        found = defaultdict(list)
        for header in headers:
            name, value = header.split(": ", 1) if ": " in header else (header.rstrip(":"), "")
            found[name].append(value)
        return {name: ", ".join(values) for name, values in found.items()}

    return changes(path, by_name(old), by_name(new))


def text_changes(path, old, new):
    parsed = [as_json(it) for it in (old, new)]
    if None not in parsed:
        found = changes(path, *parsed)
        if found and not (len(found) == 1 and "another order" in found[0] and parsed[0] != parsed[1]):
            return found
        return found or [f"{path}: written otherwise: {short(old)} → {short(new)}"]
    if "\n" in old.strip() or "\n" in new.strip():
        return line_changes(path, old.split("\n"), new.split("\n"))
    return word_changes(path, old, new)


def as_json(text):
    """What a body says. Placeholders stand where numbers were: they are read as texts."""
    if not text.lstrip().startswith(("{", "[")):
        return None
    try:
        return json.loads(re.sub(r'(?<=[:\[,]) ?(<[^<>"]+>)(?=[,}\]])', r'"\1"', text))
    except ValueError:
        return None


def line_changes(path, old, new):
    out = []
    for kind, first, last, start, end in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if kind == "equal":
            continue
        gone, come = old[first:last], new[start:end]
        if len(gone) == len(come):
            out += [change for one, other in zip(gone, come) for change in word_changes(path, one, other)]
        else:
            out += [f"{path}: − {short(it)}" for it in gone] + [f"{path}: + {short(it)}" for it in come]
    return unique(out)


def word_changes(path, old, new):
    """The words that changed, so that a sentence about another value is the same change."""
    words = [re.findall(r"\s+|\w+|[^\w\s]", it) for it in (old, new)]
    matcher = difflib.SequenceMatcher(None, *words, autojunk=False)
    # Of two texts that have little in common, all has changed.
    if matcher.ratio() < 0.5:
        return [f"{path}: {short(old)} → {short(new)}"]
    changed = []
    for kind, first, last, start, end in matcher.get_opcodes():
        if kind != "equal":
            changed.append(f"“{''.join(words[0][first:last])}” → “{''.join(words[1][start:end])}”")
    return [f"{path}: {', '.join(unique(changed))}"]


def short(value, most=160):
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= most else text[:most] + "…"
