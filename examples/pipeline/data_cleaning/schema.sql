CREATE TABLE customers (email TEXT PRIMARY KEY, name TEXT NOT NULL, country TEXT, seen INTEGER NOT NULL DEFAULT 1);
CREATE TRIGGER customers_seen AFTER UPDATE OF name ON customers
BEGIN
    UPDATE customers SET seen = seen + 1 WHERE email = NEW.email;
END;
INSERT INTO customers (email, name, country) VALUES ('ann@example.org', 'Ann', 'de'), ('old@example.org', 'Old', NULL);
