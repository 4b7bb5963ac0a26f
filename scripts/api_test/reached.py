"""Which operations were reached: a description that nothing was compared with proves nothing."""

import json

# How a report of Schemathesis calls what several operations were part of.
STATEFUL = "Stateful tests"


def statuses(report):
    """By operation, as `METHOD /path`: the statuses that it has answered with, and how often."""
    found = {}
    with open(report, encoding="utf-8") as lines:
        for line in lines:
            recorder = json.loads(line).get("ScenarioFinished", {}).get("recorder", {})
            if recorder.get("label") == STATEFUL:
                continue
            for interaction in recorder.get("interactions", {}).values():
                response, method = interaction.get("response") or {}, recorder["label"].split()[0]
                if interaction["request"]["method"] != method:
                    continue
                counts = found.setdefault(recorder["label"], {})
                status = response.get("status_code", 0)
                counts[status] = counts.get(status, 0) + 1
    return found


def operations(description, is_tested):
    """Those that are tested, as `METHOD /path`."""
    for path, methods in description["paths"].items():
        for method, operation in methods.items():
            if is_tested(operation["operationId"]):
                yield f"{method.upper()} {path}"


def missing(description, is_tested, found):
    """Those that have never succeeded."""
    for operation in operations(description, is_tested):
        answered = found.get(operation, {})
        if not any(200 <= status < 300 for status in answered):
            yield f"{operation} has never succeeded, but answered {answered or 'nothing'}"
