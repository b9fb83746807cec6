"""What a model is asked before a turn in which its user states something."""

# At most 45 tokens as Amplifier shows it; always the same, so that each request begins with the one
# before.
REMINDER = (
    "If the user now states a lasting decision, preference, rule, correction or fact, store it "
    "this turn (memory_store with `quote`). Else ignore this."
)
