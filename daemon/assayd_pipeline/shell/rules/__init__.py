"""Contains the rules for scripts, in one module for each part of the language or tool."""
