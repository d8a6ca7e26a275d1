"""The pages of the console: each module contains the routes, requests and HTML of one subject."""
