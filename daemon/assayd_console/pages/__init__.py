"""The pages: each module has the routes of one subject, what it asks of the daemon, and what it shows."""
