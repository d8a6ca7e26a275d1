"""The rules for scripts, with one module for each part of the language or tool."""
