"""The pages: each module has the routes of one subject, its requests to the daemon, and its HTML."""
