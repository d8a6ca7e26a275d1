"""The kind `pipeline`: bash and SQL steps that work on files and a database."""
