"""The rules for scripts; each module contains the rules for one part of the language or one tool."""
