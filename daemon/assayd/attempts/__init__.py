"""The life of an attempt: how a submission is accepted, run and recorded."""
