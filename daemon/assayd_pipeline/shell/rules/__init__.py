"""What scripts may do: a file for each part of the language or tool."""
