"""The program in the container: Python's own INI parser expands and converts the values."""

PROGRAM = """
from configparser import ConfigParser

text: str
fields: dict
complete: bool

parser = ConfigParser()
parser.optionxform = str
parser.read_string(text)
read = {"str": parser.get, "int": parser.getint, "float": parser.getfloat, "bool": parser.getboolean}
result = {}
for field, kind in fields.items():
    section, _, key = field.partition(".")
    if not parser.has_option(section, key):
        result[field] = ["missing", ""]
        continue
    try:
        result[field] = ["read", str(read[kind](section, key))]
    except ValueError:
        result[field] = ["wrong", parser.get(section, key)]
if complete:
    there = {f"{section}.{key}" for section in parser.sections() for key in parser[section]}
    result |= {field: ["undeclared", ""] for field in sorted(there - fields.keys())}
"""
