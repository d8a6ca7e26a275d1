"""The life of an attempt: its submission is accepted, and the attempt is run and recorded."""
