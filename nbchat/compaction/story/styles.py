"""What a summary is asked to look for: general, complete, technical or code."""

from nbchat.compaction.policies import Detail, Policy, Style

PROMPTS: dict[Style, str] = {
    "general": (
        "Summarize the conversation above so that it can go on from the summary alone: "
        "what the user wants and asked to be respected, what was decided and why, what "
        "was found out, what is done, what is open, what comes next."
    ),
    "complete": (
        "Write a record of the conversation above, so that it can go on from the "
        "record alone: what it is about and what the user asked to be respected; key "
        "facts; decisions and why; important events in the order in which they "
        "happened; technical details and code that matter; calls of tools and what "
        "they gave; questions that are open. Be concise and leave out pleasantries."
    ),
    "technical": (
        "Write structured notes on the conversation above, so that work can go on from "
        "them alone: decisions made and why; technical details (file paths, code, "
        "configuration, commands, errors); calls of tools and what they gave; the "
        "current task and its state; questions and blockers that are open."
    ),
    "code": (
        "Summarize the programming in the conversation above, so that it can go on "
        "from the summary alone: the problem; changes to code, with the few lines that "
        "matter; technical decisions and why; bugs and how they were fixed; next steps."
    ),
}

DETAILS: dict[Detail, str] = {
    "normal": "",
    "detailed": "Be detailed: keep names, numbers, code and the order of events.",
    "concise": "Be concise: only what the next step needs, in the fewest words.",
}

STRUCTURE = """Write the summary as one JSON object with these fields, all texts:
{"overview": "two or three sentences", "key_facts": [], "decisions": [],
"entities": {"kind of thing": ["its names"]}, "unresolved_questions": [],
"conversation_flow": ["what happened, in order"]}"""


def prompt_of(policy: Policy, custom: str = "") -> str:
    """What to ask for under a policy; a person's own words replace the style's."""
    asked = custom or PROMPTS[policy.style]
    form = STRUCTURE if policy.summarizer == "structured" else ""
    return "\n\n".join(filter(None, (asked, DETAILS[policy.detail], form)))
