"""What the interpreter keeps: values, conditions, stores. Knows Python, not torch."""
