CREATE TABLE IF NOT EXISTS regions (
    name TEXT PRIMARY KEY,
    orders INTEGER NOT NULL,
    amount REAL,
);
INSERT INTO regions SELECT region, count(*), sum(amount) FROM sales GROUP BY region;
SELECT * FROM regions ORDER BY name;
