from support.stores.stored_attempts import jobs, make

__all__ = ["jobs", "make"]
