"""The kind `pipeline`: bash and SQL steps on files and a database."""
