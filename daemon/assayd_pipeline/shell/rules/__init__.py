"""The rules on scripts: a module for each part of the language or tool."""
