"""The repair loop: from a report to a fixed submission, and when to stop. Stands outside the lifecycle."""
