"""Descriptions with a slip each: what finds nothing in them finds nothing at all."""


def undescribed_status(description):
    del description["paths"]["/v1/limits/{limit}/take"]["post"]["responses"]["429"]


def wrong_type_in_answer(description):
    description["components"]["schemas"]["LimitInfo"]["properties"]["capacity"] = {"type": "string"}


def too_much_allowed(description):
    description["components"]["schemas"]["SessionActivate"]["required"].remove("broadcaster")


def too_little_allowed(description):
    parameters = description["paths"]["/v1/limits/{limit}/overrides"]["get"]["parameters"]
    limit = next(it for it in parameters if (it["in"], it["name"]) == ("query", "limit"))
    limit["schema"]["maximum"] = 10


def nothing_to_find(description):
    parameters = description["paths"]["/v1/sessions/{space}/counts"]["get"]["parameters"]
    parameters[0]["schema"]["enum"] = ["nowhere"]


# The slip, the operation that it is about, and what is said of it.
SLIPS = [
    (undescribed_status, "take", "Undocumented status code"),
    (wrong_type_in_answer, "get_limit", "Response violates schema"),
    (too_much_allowed, "session_activate", "Schema-valid request rejected"),
    (too_little_allowed, "list_overrides", "Schema-violating request accepted"),
    (nothing_to_find, "session_counts", "has never succeeded"),
]
