"""What torch, frameworks and builtins do: models that register themselves under what they are about."""
