CREATE TABLE IF NOT EXISTS sales (
    id INTEGER PRIMARY KEY,
    region TEXT NOT NULL,
    sold_on TEXT NOT NULL,
    amount REAL NOT NULL CHECK (amount > 0)
);
CREATE INDEX IF NOT EXISTS sales_region ON sales (region, sold_on);

-- A file of the sandbox is read by its name.
INSERT INTO sales (id, region, sold_on, amount)
SELECT id, lower(trim(region)), sold_on, amount FROM "tmp/clean.csv" WHERE true
ON CONFLICT (id) DO UPDATE SET amount = excluded.amount;
